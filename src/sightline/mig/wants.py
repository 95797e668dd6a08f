"""What workloads need of a GPU, and which profiles of a model are enough for one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sightline.core.units import parse_size
from sightline.errors import RequestError
from sightline.mig.models import MEDIA, WHOLE, Model, list_models

MOST_COUNT = 100_000  # of one kind: far more than a fleet of 1,000 GPUs has instances
_PROFILE = re.compile(r"[1-9]g\.\d{1,3}gb(?:\+me)?")
_FORM = "Write --want 1g.10gb:3, or --want 'memory=9GB,sm=22%,count=3'."


@dataclass(frozen=True)
class Want:
    """`count` workloads that need as much each: a profile by name, or memory and a share of SMs."""

    name: str
    count: int
    profile: str | None = None
    memory_bytes: int = 0
    sm_share: float = 0.0  # 0 to 1, of the SMs of the whole GPU
    needs_media: bool = False
    note: str = ""  # where it was measured, and what was not

    def describe(self) -> str:
        """The need in a few words."""
        if self.profile is not None:
            return self.profile
        parts = [f"{self.memory_bytes / 1e9:.3g} GB"] if self.memory_bytes else []
        parts += [f"{self.sm_share:.0%} of the SMs"] if self.sm_share else []
        parts += ["media engines"] if self.needs_media else []
        return ", ".join(parts) or "anything"


def parse_want(text: str) -> Want:
    """A want as it is typed. Raises RequestError."""
    if "=" not in text:
        profile, colon, count = text.strip().partition(":")
        if not _PROFILE.fullmatch(profile):
            raise RequestError(f"'{text}' does not say what is wanted", hint=_FORM)
        known = {size.name for model in list_models() for size in model.sizes.values()}
        if profile not in known:
            raise RequestError(
                f"no GPU has a profile called {profile}",
                hint="They are listed by:  sightline mig --list",
            )
        return Want(profile, _parse_count(count if colon else "1", text), profile)
    values: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in ("memory", "sm", "count", "name", "media") or not value or key in values:
            raise RequestError(f"'{part.strip()}' of '{text}' is not understood", hint=_FORM)
        values[key] = value
    want = Want(
        values.get("name", ""),
        _parse_count(values.get("count", "1"), text),
        None,
        parse_size(values["memory"]) if "memory" in values else 0,
        _parse_share(values["sm"], text) if "sm" in values else 0.0,
        values.get("media", "no").lower() in ("yes", "true", "1"),
    )
    name = want.name or want.describe()
    return Want(name, want.count, None, want.memory_bytes, want.sm_share, want.needs_media)


def _parse_count(text: str, whole: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_COUNT:
        raise RequestError(
            f"'{text}' in '{whole}' is not a count from 1 to {MOST_COUNT:,}", hint=_FORM
        )
    return int(text)


def _parse_share(text: str, whole: str) -> float:
    found = re.fullmatch(r"(\d{1,3}(?:\.\d+)?)\s*%?", text)
    if found is None or not 0 < float(found[1]) <= 100:
        raise RequestError(f"'{text}' in '{whole}' is not a share of the SMs", hint=_FORM)
    return float(found[1]) / 100


def list_fitting(want: Want, model: Model) -> list[str]:
    """The keys of all profiles that are enough; the whole GPU only where none of them is."""
    if want.profile is not None:
        return [key for key, size in model.sizes.items() if size.name == want.profile]

    def is_enough(key: str) -> bool:
        # 0.1 %: a share that was computed from SMs must find its own profile.
        return (
            model.get_memory_bytes(key) >= want.memory_bytes
            and model.get_sm_share(key) >= want.sm_share * 0.999
        )

    keys = [key for key in model.sizes if is_enough(key)]
    if want.needs_media:
        # All slices have the media engines; else only one instance has them.
        all_slices = max(model.family.shapes, key=lambda shape: shape.compute).key
        keys = [key for key in keys if key.endswith(MEDIA) or key == all_slices]
    else:
        keys = [key for key in keys if not key.endswith(MEDIA)]
    if not keys and is_enough(WHOLE):
        return [WHOLE]
    return keys


def measure_excess(want: Want, model: Model, key: str) -> float:
    """What an instance has beyond the need: shares of the GPU's memory and SMs, added up."""
    if want.profile is not None:
        return 0.0
    memory = (model.get_memory_bytes(key) - want.memory_bytes) / model.get_memory_bytes(WHOLE)
    return memory + max(0.0, model.get_sm_share(key) - want.sm_share)
