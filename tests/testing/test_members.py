"""What `sightline.testing` refuses: a member for each fault, right but for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from sightline.core.model.columns import RANK, duration, number
from sightline.core.model.declare import (
    Analysis,
    Finding,
    Imported,
    Importer,
    Price,
    Recording,
    Rule,
)
from sightline.core.model.run import Run
from sightline.errors import RequestError
from sightline.testing import check_analysis, check_importer, check_rule, open_rows

OPS = pl.DataFrame(
    {
        "device_op_id": [0, 1],
        "device_id": [0, 0],
        "stream_id": [0, 0],
        "kind": ["kernel", "kernel"],
        "name": ["a", "b"],
        "start_ns": [0, 900],
        "end_ns": [100, 1_000],
    }
)


def _module(page: str, **members: Any) -> ModuleType:
    made = ModuleType("member", page)
    vars(made).update(members)
    return made


def _importer(**changes: Any) -> ModuleType:
    declared = {
        "name": "mine",
        "label": "Mine",
        "strong": (rb"^MINE",),
        "weak": (),
        "looks_like": "a file that starts with MINE",
        "suffixes": (".mine",),
        "version": 1,
        "source": "https://example.com",
    }
    tables = changes.pop("tables", lambda: {"device_ops": OPS})
    page = changes.pop("page", "Mine.")
    return _module(
        page,
        IMPORTER=Importer(**{**declared, **changes}),
        read=lambda source, options: Imported(tables(), Recording("Mine"), []),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "x.mine"
    made.write_text("MINE 1\n")
    return made


def test_an_importer_that_is_right(path: Path) -> None:
    assert check_importer(_importer(), path).tables["device_ops"].height == 2


def _make_counting() -> Callable[[], dict[str, pl.DataFrame]]:
    count = iter(range(9))
    return lambda: {"device_ops": OPS.with_columns(stream_id=pl.lit(next(count)))}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"page": ""}, "no docstring"),
        ({"strong": (rb"^YOURS",)}, "no pattern"),
        ({"suffixes": ("mine",)}, "begin with a dot"),
        ({"source": ""}, "source"),
        ({"tables": dict}, "no row"),
        ({"tables": lambda: {"device_ops": OPS.with_columns(bogus=1)}}, "no column bogus"),
        ({"tables": lambda: {"device_ops": OPS.drop("kind")}}, "lacks kind"),
        ({"tables": lambda: {"device_ops": OPS.with_columns(pl.col("start_ns") * 1.5)}}, "Float64"),
        ({"tables": lambda: {"device_ops": OPS.with_columns(end_ns=pl.lit(50))}}, "end before"),
        ({"tables": lambda: {"device_ops": OPS.with_columns(device_op_id=1)}}, "not unique"),
        (
            {"tables": lambda: {"device_ops": OPS.with_columns(pl.col("device_op_id") + 1)}},
            "count from 0",
        ),
        ({"tables": _make_counting()}, "read again"),
        (
            {
                "tables": lambda: {
                    "device_ops": OPS.with_columns(launch_id=pl.lit(7)),
                    "host_ops": pl.DataFrame(
                        {"host_op_id": [0], "pid": [1], "tid": [1], "layer": ["api"],
                         "name": ["launch"], "start_ns": [0], "end_ns": [1], "depth": [0],
                         "subtree_end_id": [1]}
                    ),
                }
            },
            "points to no row",
        ),
    ],
)  # fmt: skip
def test_an_importer_that_is_wrong(path: Path, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(AssertionError, match=expected):
        check_importer(_importer(**changes), path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_rows(tmp_path, device_ops=OPS.to_dicts())


COLUMNS = (RANK, number("count", "operations", required=True), duration("busy_ns", "busy"))
RIGHT = pl.DataFrame({"rank": [0], "count": [2], "busy_ns": [200]})


def _analysis(
    answer: Callable[[Run], pl.DataFrame], question: str = "How many?", page: str = "Mine."
) -> ModuleType:
    declared = Analysis("mine", question, COLUMNS, needs=("device_ops",))
    return _module(page, ANALYSIS=declared, run=answer)


def _make_forgetful() -> ModuleType:
    """An analysis that counts how often it was asked."""
    counted = iter(range(9))
    return _analysis(lambda run: RIGHT.with_columns(count=pl.lit(next(counted))))


def test_an_analysis_that_is_right(run: Run, tmp_path: Path) -> None:
    answer = check_analysis(_analysis(lambda run: RIGHT), run)
    assert answer is not None
    assert answer.equals(RIGHT)
    host = open_rows(tmp_path, host_ops=[{"name": "f", "start_ns": 0, "end_ns": 1}])
    assert check_analysis(_analysis(lambda run: RIGHT), host) is None


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (_analysis(lambda run: RIGHT, page=" "), "no docstring"),
        (_analysis(lambda run: RIGHT, question="Many"), "question"),
        (_analysis(lambda run: RIGHT.drop("busy_ns")), "declares"),
        (_analysis(lambda run: RIGHT.with_columns(count=pl.lit(None))), "count is null"),
        (_analysis(lambda run: RIGHT.with_columns(busy_ns=pl.lit(float("nan")))), "not a number"),
        (_make_forgetful(), "answers otherwise"),
    ],
)
def test_an_analysis_that_is_wrong(run: Run, module: ModuleType, expected: str) -> None:
    with pytest.raises(AssertionError, match=expected):
        check_analysis(module, run)


PAGE = "\n".join(
    ("Mine.", "", "Symptom", "Why it hurts", "Evidence", "Threshold", "Fix", "False positives")
)
FINDING = Finding(
    "my-problem",
    "Mine",
    "warning",
    "It waits.",
    cost=Price(800, "ns", 80.0),
    gain=Price(800, "ns", 80.0),
    evidence=("800 ns",),
)


def _rule(page: str = PAGE, **changes: Any) -> ModuleType:
    found = Finding(**{**{f: getattr(FINDING, f) for f in FINDING.__dataclass_fields__}, **changes})

    def check(run: Run) -> Iterator[Finding]:
        yield found

    return _module(page, RULE=Rule("my-problem", "Mine"), check=check)


def test_a_rule_that_is_right(run: Run) -> None:
    assert check_rule(_rule(), run) == [FINDING]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"page": PAGE.replace("Threshold", "Limit")}, "lacks Threshold"),
        ({"rule": "another"}, "my-problem"),
        ({"summary": ""}, "summary"),
        ({"severity": "bad"}, "bad"),
        ({"evidence": ()}, "evidence"),
        ({"abstained": True}, "says why"),
        ({"cost": Price(800, "ns", 180.0)}, "180"),
        ({"gain": Price(900, "ns", 90.0)}, "more than it costs"),
    ],
)
def test_a_rule_that_is_wrong(run: Run, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(AssertionError, match=expected):
        check_rule(_rule(**changes), run)


def test_rows_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no column bogus"):
        open_rows(tmp_path, device_ops=[{"bogus": 1}])
    with pytest.raises(AssertionError, match="lacks"):
        open_rows(tmp_path, device_ops=[{"start_ns": 0}])
    with pytest.raises(RequestError):
        open_rows(tmp_path, no_such_table=[])


def test_rows_of_several_tables_join(tmp_path: Path) -> None:
    run = open_rows(
        tmp_path,
        rank=3,
        host_ops=[{"name": "launch", "layer": "api", "start_ns": 0, "end_ns": 10}],
        device_ops=[{"start_ns": 20, "end_ns": 60, "launch_id": 0}],
    )
    assert run.ask("breakdown").row(0, named=True)["rank"] == 3
    assert run.table("device_ops").item(0, "launch_id") == run.table("host_ops").item(0, 0)
