"""GPUs that can be cut, and their profiles: `gpus.tsv` and `families.tsv`.

Sizes that no real table shows are estimated from below, so that a plan never promises what an
instance does not have, and are marked. `nvidia-smi mig -lgip` on the machine knows them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from sightline.core.packaged_rows import read_rows
from sightline.core.registry import did_you_mean
from sightline.errors import RequestError

_HERE = "sightline.mig"  # where the tables lie
WHOLE = "whole"  # a GPU that is not cut
MEDIA = "+me"
# The least share of what a name says that a real table shows: 16.0 GiB of H200's 1g.18gb.
_LEAST_GIB_PER_GB = 16.0 / 18
# The fewest SMs a compute slice has of the whole GPU: 16 of H100's 132 (of 108: 14).
_LEAST_SLICE = 16 / 132
# A30 and RTX PRO 6000 have four slices; A30's are a quarter each.
_LEAST_QUARTER = 1 / 4


@dataclass(frozen=True)
class Shape:
    """A profile of a family: slices of compute and slots of memory, and where it may begin."""

    key: str
    compute: int
    memory: int
    starts: tuple[int, ...]
    most: int
    gi: int | None

    @property
    def has_media(self) -> bool:
        """Whether it has the media extensions, which only one instance can have."""
        return self.key.endswith(MEDIA)


@dataclass(frozen=True)
class Family:
    """Shapes that share a GPU of `compute` slices and `memory` slots."""

    name: str
    compute: int
    memory: int
    shapes: tuple[Shape, ...]

    def find_shape(self, key: str) -> Shape:
        """A shape by its key, such as 1g.2x."""
        return next(shape for shape in self.shapes if shape.key == key)


@dataclass(frozen=True)
class Size:
    """What an instance of a profile has."""

    name: str
    sms: int | None  # None: the GPU's SMs are not known
    memory_bytes: int
    has_real_sms: bool  # as a real table shows them; else estimated
    has_real_memory: bool

    @property
    def is_proven(self) -> bool:
        """Whether nothing of it is estimated."""
        return self.has_real_sms and self.has_real_memory


@dataclass(frozen=True)
class Model:
    """A GPU with MIG. `sms` None: not known here."""

    name: str
    family: Family
    pci_ids: tuple[str, ...]
    sms: int | None
    memory_gb: int
    driver: str
    sizes: Mapping[str, Size]
    source: str

    def get_sm_share(self, key: str) -> float:
        """The share of the GPU's SMs that an instance has, 0 to 1; a lower bound where unproven."""
        if key == WHOLE:
            return 1.0
        sms = self.sizes[key].sms
        if sms is not None and self.sms is not None:
            return sms / self.sms
        return _estimate_share(self.family, self.family.find_shape(key).compute)

    def get_memory_bytes(self, key: str) -> int:
        """The memory of an instance; of the whole GPU, that of its largest profile."""
        if key == WHOLE:
            return max(size.memory_bytes for size in self.sizes.values())
        return self.sizes[key].memory_bytes


def _estimate_share(family: Family, compute: int) -> float:
    slice_share = _LEAST_SLICE if family.compute == 7 else _LEAST_QUARTER
    return min(1.0, compute * slice_share)


@cache
def list_families() -> Mapping[str, Family]:
    """The families by name."""
    shapes: dict[str, list[Shape]] = {}
    for family, key, compute, memory, starts, most, gi in read_rows(_HERE, "families.tsv"):
        shapes.setdefault(family, []).append(
            Shape(
                key,
                int(compute),
                int(memory),
                tuple(int(start) for start in starts.split(",")),
                int(most),
                None if gi == "-" else int(gi),
            )
        )
    return {
        name: Family(name, max(s.compute for s in mine), max(s.memory for s in mine), tuple(mine))
        for name, mine in shapes.items()
    }


@cache
def list_models() -> tuple[Model, ...]:
    """All GPUs of the table, in its order."""
    models = []
    for name, family_name, pci, sms, memory, driver, profiles, source in read_rows(
        _HERE, "gpus.tsv"
    ):
        family = list_families()[family_name]
        whole = None if sms == "-" else int(sms)
        sizes = _read_sizes(profiles, family, whole)
        ids = tuple(pci.split(","))
        models.append(Model(name, family, ids, whole, int(memory), driver, sizes, source))
    return tuple(models)


def _read_sizes(text: str, family: Family, whole: int | None) -> dict[str, Size]:
    """Sizes by profile, from `1g=1g.10gb:16:9.75 ...`."""
    rows = [(part.partition("=")[0], *part.partition("=")[2].split(":")) for part in text.split()]
    real = [(family.find_shape(key).memory, float(gib)) for key, _, _, gib in rows if gib]
    sizes = {}
    for key, name, sms, gib in rows:
        shape = family.find_shape(key)
        named = float(name.partition(".")[2].removesuffix("gb")) * _LEAST_GIB_PER_GB
        # Slots of a larger instance are as large as those of a smaller one at least.
        least = max([named, *(shape.memory // slots * size for slots, size in real)])
        share = _estimate_share(family, shape.compute)
        estimated = None if whole is None else math.floor(share * whole)
        memory = int((float(gib) if gib else least) * (1 << 30))
        sizes[key] = Size(name, int(sms) if sms else estimated, memory, bool(sms), bool(gib))
    plain = sizes["1g"]
    if any(shape.key == "1g" + MEDIA for shape in family.shapes):
        sizes["1g" + MEDIA] = replace(plain, name=plain.name + MEDIA)
    return sizes


def find_model(name: str) -> Model:
    """A GPU by its name or PCI device id, in any case and spacing. Raises RequestError."""
    word = _simplify(name)
    for model in list_models():
        if word in (_simplify(model.name), *(pci.lower() for pci in model.pci_ids)):
            return model
    alike = [model for model in list_models() if _simplify(model.name).startswith(word)]
    if word and len(alike) == 1:
        return alike[0]
    names = [model.name for model in list_models()]
    raise RequestError(
        f"there is no GPU with MIG called '{name}'",
        why=f"it may be {' or '.join(m.name for m in alike)}"
        if alike and word
        else did_you_mean(name, names),
        hint=f"There are:  {', '.join(names)}",
    )


def find_by_pci(device_id: int) -> Model | None:
    """A GPU by what NVML's PCI information has: device id above vendor id, as in 0x233510DE."""
    word = f"{device_id >> 16:04X}"
    return next((model for model in list_models() if word in model.pci_ids), None)


def _simplify(name: str) -> str:
    return name.lower().removeprefix("nvidia").replace(" ", "").replace("-", "").replace("_", "")
