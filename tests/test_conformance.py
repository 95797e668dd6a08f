"""What every importer, analysis, rule and table must be: the registry is walked, nothing listed.

A new member inherits these tests by lying in its folder.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import polars as pl
import pytest

import sightline
from sightline.core import registry
from sightline.core.model.columns import Column
from sightline.core.model.declare import Analysis, Finding, Importer, Rule
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline import causes
from support.places import ROOT
from support.simulated import files_of, simulated

REFERENCE = ROOT / "docs" / "reference.md"
FUNCTIONS = {
    "importers": "read",
    "analyses": "run",
    "rules": "check",
    "tables": None,
    "exporters": "write",
    "panels": "data",
    "displays": "write_html",
    "backends": None,
}
MEMBERS = [(kind, name) for kind in registry.KINDS for name in registry.list_names(kind)]
ANALYSES = list(registry.list_names("analyses"))
RULES = list(registry.list_names("rules"))
TABLES = list(registry.list_names("tables"))
RUNS = ["random_program", "exposed_communication", "cpu_only"]
UNITS = {
    "_ns": "ns",
    "_bytes": "bytes",
    "_pct": "%",
    "_hz": "Hz",
    "_bytes_per_s": "bytes/s",
    "gb_per_s": "GB/s",
}


def declared(name: str) -> Analysis:
    analysis: Analysis = registry.load("analyses", name).ANALYSIS
    return analysis


def columns() -> Iterator[tuple[str, Column]]:
    for name in TABLES:
        for column in registry.load("tables", name).TABLE.columns:
            yield f"{name}.{column.name}", column
    for name in ANALYSES:
        for column in declared(name).columns:
            yield f"{name}.{column.name}", column


@pytest.mark.parametrize(("kind", "name"), MEMBERS, ids=lambda value: str(value))
def test_member_has_its_constant_its_function_and_a_page(kind: str, name: str) -> None:
    module: ModuleType = registry.load(kind, name)
    constant = getattr(module, registry.KINDS[kind].constant)
    assert (module.__doc__ or "").strip(), "the module's docstring is its page"
    if kind != "rules":
        assert constant.name == name
    function = FUNCTIONS[kind]
    if function is not None:
        assert callable(getattr(module, function))
        assert inspect.getdoc(getattr(module, function))


@pytest.mark.parametrize("kind", registry.KINDS)
def test_names_of_a_kind_are_unique(kind: str) -> None:
    names = [getattr(m, registry.KINDS[kind].constant).name for _, m in registry.load_members(kind)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", registry.list_names("importers"))
def test_importer_declares_how_it_is_recognised(name: str) -> None:
    importer: Importer = registry.load("importers", name).IMPORTER
    assert importer.strong or importer.weak or importer.owns
    for pattern in (*importer.strong, *importer.weak):
        re.compile(pattern)
    assert importer.suffixes or importer.find_folders is not None
    assert all(suffix.startswith(".") for suffix in importer.suffixes)
    assert importer.version >= 1
    assert importer.looks_like
    assert importer.source


def test_asking_what_recognises_a_file_loads_no_reader() -> None:
    """Every command asks; the readers of the large formats, and their libraries, take time."""
    code = (
        "import sys; from sightline.opening.recognise import list_importers; list_importers();"
        "heavy = ('google.protobuf', 'sqlite3', 'sightline.formats.nvidia._nsys.tables');"
        "sys.exit(', '.join(m for m in heavy if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == ""


# -- columns ------------------------------------------------------------------------------------


def test_every_column_has_a_sentence() -> None:
    assert [name for name, column in columns() if not column.doc.strip()] == []


def test_every_column_has_the_unit_that_its_name_says() -> None:
    wrong = [
        (name, column.unit)
        for name, column in columns()
        for ending, unit in UNITS.items()
        if column.name.endswith(ending)
        and column.unit != unit
        and not (ending == "_bytes" and column.name.endswith("_bytes_per_s"))
    ]
    assert wrong == []


def test_times_and_sizes_are_integers() -> None:
    """Of analyses, a mean or a deviation may be a float."""
    wrong = [
        name
        for table in TABLES
        for name, column in (
            (f"{table}.{c.name}", c) for c in registry.load("tables", table).TABLE.columns
        )
        if column.unit in ("ns", "bytes") and column.dtype not in (pl.Int64, pl.List(pl.Int64))
    ]
    assert wrong == []


def test_every_join_names_a_column_that_exists() -> None:
    known = {
        f"{table}.{column.name}"
        for table in TABLES
        for column in registry.load("tables", table).TABLE.columns
    }
    assert [name for name, c in columns() if c.joins is not None and c.joins not in known] == []


@pytest.mark.parametrize("name", TABLES)
def test_table_columns_are_unique_and_have_rank_and_recording(name: str) -> None:
    table = registry.load("tables", name).TABLE
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    assert {"rank", "recording_id"} <= set(names)
    assert table.row


@pytest.mark.parametrize("name", ANALYSES)
def test_analysis_is_declared_in_full(name: str) -> None:
    analysis = declared(name)
    assert "?" in analysis.question
    names = [column.name for column in analysis.columns]
    assert len(set(names)) == len(names)
    assert set(analysis.needs) <= set(TABLES)
    parameters = inspect.signature(registry.load("analyses", name).run).parameters
    assert list(parameters)[1:] == [p.name for p in analysis.params]
    assert all(p.doc for p in analysis.params)


# -- answers ------------------------------------------------------------------------------------


def answer(run: Run, name: str) -> pl.DataFrame | None:
    """What the module itself returns, or None where the recording lacks what it needs."""
    analysis = declared(name)
    if any(not run.rows(table) for table in analysis.needs):
        with pytest.raises(MissingDataError):
            run.ask(name)
        return None
    try:
        frame: pl.DataFrame = registry.load("analyses", name).run(
            run, **{p.name: p.default for p in analysis.params}
        )
    except MissingDataError:
        return None
    return frame


@pytest.mark.parametrize("scenario", RUNS)
@pytest.mark.parametrize("name", ANALYSES)
def test_answer_has_the_declared_columns(name: str, scenario: str) -> None:
    run = simulated(scenario).run
    frame = answer(run, name)
    if frame is None:
        return
    analysis = declared(name)
    assert set(frame.columns) == {column.name for column in analysis.columns}
    asked = run.ask(name)
    assert dict(asked.schema) == {column.name: column.dtype for column in analysis.columns}
    for column in analysis.columns:
        if column.required:
            assert asked.get_column(column.name).null_count() == 0, column.name
        if column.unit == "%":
            assert asked.filter(pl.col(column.name).is_nan()).is_empty(), column.name


@pytest.mark.parametrize("name", ANALYSES)
def test_answer_is_the_same_twice(name: str) -> None:
    """Two runs from two imports of the same recording, in this and in another order of work."""
    paths = [str(p) for p in files_of("exposed_communication", 0, "2025")]
    first = answer(sightline.open(*paths), name)
    again = answer(sightline.open(*paths), name)
    assert (first is None) == (again is None)
    if first is not None and again is not None:
        assert first.equals(again)


@pytest.mark.parametrize("name", ANALYSES)
def test_answer_does_not_change_the_tables(name: str) -> None:
    run = simulated("random_program").run
    before = {table: run.table(table).hash_rows().sum() for table in TABLES if run.rows(table)}
    answer(run, name)
    assert {t: run.table(t).hash_rows().sum() for t in before} == before


@pytest.mark.parametrize("scenario", RUNS)
@pytest.mark.parametrize("name", TABLES)
def test_imported_table_is_as_declared(name: str, scenario: str) -> None:
    table = registry.load("tables", name).TABLE
    frame = simulated(scenario).run.table(name)
    assert dict(frame.schema) == table.schema
    for column in table.columns:
        values = frame.get_column(column.name)
        if column.required:
            assert values.null_count() == 0, column.name
        if column.is_id:
            assert values.n_unique() == frame.height, column.name


@pytest.mark.parametrize("scenario", RUNS)
def test_every_id_points_to_a_row(scenario: str) -> None:
    run = simulated(scenario).run
    for name in TABLES:
        for column in registry.load("tables", name).TABLE.columns:
            # A subtree's end is one past its last id, and may be past the table's last.
            if column.joins is None or column.name == "subtree_end_id":
                continue
            table, _, key = column.joins.partition(".")
            here = run.table(name).get_column(column.name).drop_nulls().unique()
            there = run.table(table).get_column(key)
            assert here.is_in(there.implode()).all(), f"{name}.{column.name}"


# -- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", [*RUNS, "dataloader_starved", "launch_bound"])
@pytest.mark.parametrize("name", RULES)
def test_findings_are_complete(name: str, scenario: str) -> None:
    module = registry.load("rules", name)
    rule: Rule = module.RULE
    try:
        found: list[Finding] = list(module.check(simulated(scenario).run))
    except MissingDataError:
        return
    for finding in found:
        assert finding.rule == rule.name
        assert finding.title
        assert finding.summary
        assert finding.severity in ("critical", "warning", "info")
        assert finding.confidence in ("high", "medium", "low")
        if finding.abstained:
            assert finding.reason
            continue
        assert finding.evidence
        for figure in (finding.cost_ns, finding.gain_ns, finding.cost_pct):
            assert figure is None or figure >= 0
        assert finding.cost_pct is None or finding.cost_pct <= 100
    again: list[Any] = list(module.check(simulated(scenario).run))
    assert again == found


def test_every_cause_belongs_to_one_rule() -> None:
    named = [v for k, v in vars(causes).items() if k.isupper()]
    declared = [c for _, module in registry.load_members("rules") for c in module.RULE.causes]
    assert sorted(declared) == sorted(named)


def test_every_rule_and_analysis_lies_in_a_subject() -> None:
    for kind, names in (("rules", RULES), ("analyses", ANALYSES)):
        assert [n for n in names if registry.subject_of(kind, n) is None] == []
    assert [s.name for s in registry.list_subjects().values()] == list(registry.list_subjects())


# -- the reference ------------------------------------------------------------------------------


@pytest.mark.skipif(not REFERENCE.exists(), reason="docs/reference.md is not generated yet")
def test_every_analysis_is_in_the_reference() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    missing = [name for name in ANALYSES if f"\n### {name}\n" not in text]
    assert missing == [], "make docs writes docs/reference.md anew"


@pytest.mark.xdist_group("alone")
def test_groups_of_tests_have_effect(request: pytest.FixtureRequest) -> None:
    """Else each worker makes fixtures of a minute anew, as with pytest 9.2 and xdist 3.8."""
    if "PYTEST_XDIST_WORKER" not in os.environ or not request.config.getvalue("loadgroup"):
        pytest.skip("not spread over workers by group")
    assert request.node.nodeid.endswith("@alone")
