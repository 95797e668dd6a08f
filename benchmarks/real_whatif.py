"""What a real vLLM does at other settings, as predicted from one recording and as measured.

SIGHTLINE_VLLM=FOLDER python benchmarks/real_whatif.py [--rounds 3] [--settings 8]

FOLDER is what `scripts/vllm_cpu.py FOLDER` made. One server has the settings that are recorded; for
each of eight others a server is started beside it, and both get the same requests in turns: the
first server's log of iterations and its client's log are the recording of which `sightline whatif`
predicts the other's times, which its own client then measures. No profiler is on. Five figures of
each setting: mean and median of TTFT and of ITL, and tokens a second.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import sightline  # noqa: E402
from sightline.record.collect.server_load import Load, read_prompts, send_load  # noqa: E402
from sightline.record.collect.server_log import ServerLog  # noqa: E402
from sightline.subjects.serving.planning.prediction import (  # noqa: E402
    Times,
    list_asked,
    measure_served,
    predict,
)
from support import real_server as real  # noqa: E402

REQUESTS = 64
LENGTHS = (30, 120, 60, 90)
FIGURES = ("ttft_mean_ms", "ttft_p50_ms", "itl_mean_ms", "itl_p50_ms", "tokens_per_s")


@dataclass(frozen=True)
class Setting:
    """Limits of a step, and how many clients ask."""

    seqs: int
    tokens: int
    clients: int

    @property
    def flags(self) -> tuple[str, ...]:
        """What the server is started with."""
        return (
            *("--max-num-seqs", str(self.seqs), "--max-num-batched-tokens", str(self.tokens)),
            "--no-enable-prefix-caching",
        )


RECORDED = Setting(8, 128, 8)
SETTINGS = (
    Setting(2, 128, 8), Setting(4, 128, 8), Setting(16, 128, 16), Setting(8, 32, 8),
    Setting(8, 512, 8), Setting(8, 128, 2), Setting(8, 128, 16), Setting(4, 512, 16),
)  # fmt: skip


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="only so many")
    args = parser.parse_args()
    if not real.FOLDER:
        print(__doc__, file=sys.stderr)
        return 2
    print("| --max-num-seqs | --max-num-batched-tokens | clients | " + " | ".join(FIGURES) + " |")
    print("|---|---|---|" + "---|" * len(FIGURES), flush=True)
    errors: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prompts = read_prompts(real.write_prompts(folder / "prompts.jsonl", LENGTHS, REQUESTS))
        with real.serve(folder / "recorded", RECORDED.flags) as recorded:
            _send(recorded, prompts, RECORDED.clients)  # first steps compile
            spread: list[Times] = []
            for number, setting in enumerate(SETTINGS[: args.settings]):
                errors.append(
                    _try(folder / str(number), recorded, setting, prompts, args.rounds, spread)
                )
    for name in FIGURES:
        values = [getattr(times, name) for times in spread]
        print(
            f"recorded settings, {name}: {min(values):.4g} to {max(values):.4g}, "
            f"median {statistics.median(values):.4g}"
        )
        print(f"median error of {name}: {statistics.median(e[name] for e in errors):.1f} %")
    every = [error for one in errors for error in one.values()]
    print(f"median error of all {len(every)}: {statistics.median(every):.1f} %")
    return 0


def _try(
    folder: Path,
    recorded: real.Server,
    setting: Setting,
    prompts: Sequence[str],
    rounds: int,
    spread: list[Times],
) -> dict[str, float]:
    """One setting's row: medians of the rounds; what is returned is how far off it is, %."""
    pairs: list[tuple[Times, Times]] = []
    with real.serve(folder, setting.flags) as server:
        _send(server, prompts, setting.clients)
        for number in range(rounds):
            run = _record(recorded, folder, number, prompts)
            rows = _send(server, prompts, setting.clients)
            client = folder / f"measured{number}.json"
            client.write_text(json.dumps(rows))
            told = predict(
                run, max_num_seqs=setting.seqs, max_num_batched_tokens=setting.tokens,
                clients=setting.clients,
            )  # fmt: skip
            spread.append(told.measured)
            pairs.append((_measure(client), told.predicted))
    cells, errors = [], {}
    for name in FIGURES:
        measured, predicted = (
            statistics.median(getattr(side, name) for side in sides)
            for sides in zip(*pairs, strict=True)
        )
        errors[name] = abs(100 * (predicted / measured - 1))
        cells.append(
            f"{measured:.4g} → {predicted:.4g} ({100 * (predicted / measured - 1):+.0f} %)"
        )
    print(
        f"| {setting.seqs} | {setting.tokens} | {setting.clients} | " + " | ".join(cells) + " |",
        flush=True,
    )
    return errors


def _send(server: real.Server, prompts: Sequence[str], clients: int) -> list[dict[str, Any]]:
    return send_load(server.url, Load(REQUESTS, clients, prompts), print)


def _record(
    server: real.Server, folder: Path, number: int, prompts: Sequence[str]
) -> sightline.Session:
    """The log of the recorded server's steps while its clients ask, and theirs."""
    log = ServerLog(server.log)
    rows = _send(server, prompts, RECORDED.clients)
    place = folder / f"recorded{number}"
    place.mkdir()
    (place / "server.txt").write_text(log.read())
    (place / "client.json").write_text(json.dumps(rows))
    return sightline.open(str(place / "server.txt"), str(place / "client.json"))


def _measure(client: Path) -> Times:
    return measure_served(list_asked(sightline.open(str(client)))[1])


if __name__ == "__main__":
    raise SystemExit(main())
