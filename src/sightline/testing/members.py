"""What every importer, analysis and rule must be: the checks of our own suite, by module."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from sightline.core.model.declare import Analysis, Finding, Imported, Importer, ImportOptions, Rule
from sightline.core.model.run import Run
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.errors import MissingDataError
from sightline.testing.damage import count_rows

_HEADINGS = ("Symptom", "Why it hurts", "Evidence", "Threshold", "Fix", "False positives")


def check_importer(module: ModuleType, path: Path) -> Imported:
    """Check an importer and what it reads of a recording, which it must recognise; what was read.

    Its declaration is whole; tables have declared columns of the declared types, ids count from 0
    and point to rows, no time is no integer, nothing ends before it starts; reading again gives the
    same.
    """
    importer: Importer = module.IMPORTER
    _check_page(module, importer.name)
    assert importer.strong or importer.weak or importer.owns, "nothing says which files it reads"
    assert all(suffix.startswith(".") for suffix in importer.suffixes), "suffixes begin with a dot"
    assert importer.version >= 1
    assert importer.looks_like, "looks_like says what such a file looks like"
    assert importer.source, "source says where the format is described"
    head = Source(path, path.name).head()
    patterns = (*importer.strong, *importer.weak)
    assert importer.owns or any(re.search(pattern, head) for pattern in patterns), (
        f"no pattern of {importer.name} is in the first 64 kB of {path.name}"
    )
    first, again = (module.read(Source(path, path.name), ImportOptions()) for _ in range(2))
    assert count_rows(first), "it reads no row"
    for name, frame in first.tables.items():
        _check_table(name, frame)
        assert frame.equals(again.tables[name]), f"{name} is another when it is read again"
    _check_ids(first)
    imported: Imported = first
    return imported


def _check_page(module: ModuleType, name: str) -> None:
    assert (module.__doc__ or "").strip(), f"{name} has no docstring, which is its page"


def _check_table(name: str, frame: pl.DataFrame) -> None:
    declared = {c.name: c for c in load_table(name).stored}
    for column, dtype in frame.schema.items():
        assert column in declared, f"{name} has no column {column}:  sightline tables {name}"
        wanted = declared[column]
        # What is null throughout has no type yet; small integers become larger ones.
        fits = dtype in (wanted.dtype, pl.Null, pl.Categorical) or (
            dtype.is_integer() and wanted.dtype in (pl.Int64, pl.Float64)
        )
        assert fits, f"{name}.{column} is {dtype}, not {wanted.dtype}"
        if wanted.required:
            assert frame.get_column(column).null_count() == 0, f"{name}.{column} is null in a row"
    lacking = [c.name for c in declared.values() if c.required and c.name not in frame.columns]
    assert not lacking, f"{name} lacks {', '.join(lacking)}"
    if {"start_ns", "end_ns"} <= set(frame.columns):
        backwards = frame.filter(pl.col("end_ns") < pl.col("start_ns")).height
        assert not backwards, f"{backwards} rows of {name} end before they start"


def _check_ids(imported: Imported) -> None:
    for name, frame in imported.tables.items():
        for column in load_table(name).stored:
            if column.name not in frame.columns:
                continue
            values = frame.get_column(column.name).drop_nulls()
            if column.is_id:
                assert values.n_unique() == frame.height, f"{name}.{column.name} is not unique"
                assert values.min() in (None, 0), f"{name}.{column.name} does not count from 0"
            table, _, key = (column.joins or "").partition(".")
            # A subtree's end is one past its last id; ids of tables that come later are theirs.
            if column.name == "subtree_end_id" or key not in imported.tables.get(table, frame[:0]):
                continue
            there = imported.tables[table].get_column(key)
            assert values.is_in(there.implode()).all(), f"{name}.{column.name} points to no row"


def check_analysis(module: ModuleType, run: Run) -> pl.DataFrame | None:
    """Check an analysis and what it answers of a run; None where the run lacks what it needs.

    Exactly the declared columns, none null or not a number where that is not allowed, the same
    twice, and tables that are as they were.
    """
    analysis: Analysis = module.ANALYSIS
    _check_page(module, analysis.name)
    assert "?" in analysis.question, "question is a question"
    parameters = list(inspect.signature(module.run).parameters)[1:]
    assert parameters == [p.name for p in analysis.params], "run takes what params declares"
    if any(not run.rows(table) for table in analysis.needs):
        return None
    before = {table: run.table(table).hash_rows().sum() for table in analysis.needs}
    given = {p.name: p.default for p in analysis.params}
    try:
        frame: pl.DataFrame = module.run(run, **given)
    except MissingDataError:
        return None
    assert {t: run.table(t).hash_rows().sum() for t in before} == before, "it changes a table"
    declared = {column.name: column for column in analysis.columns}
    assert set(frame.columns) == set(declared), (
        f"it answers {', '.join(frame.columns)}, and declares {', '.join(declared)}"
    )
    for name, column in declared.items():
        values = frame.get_column(name)
        assert not column.required or values.null_count() == 0, f"{name} is null in a row"
        if values.dtype.is_float():
            assert not values.is_nan().any(), f"{name} is not a number in a row"
    assert module.run(run, **given).equals(frame), "it answers otherwise when it is asked again"
    return frame


def check_rule(module: ModuleType, run: Run) -> list[Finding]:
    """Check a rule and what it finds in a run; its findings, none where the run lacks its data.

    Its page has all headings; findings are whole, gain no more than they cost, and are the same
    twice.
    """
    rule: Rule = module.RULE
    _check_page(module, rule.name)
    lacking = [h for h in _HEADINGS if not re.search(rf"^{h}$", module.__doc__ or "", re.MULTILINE)]
    assert not lacking, f"the page of {rule.name} lacks {', '.join(lacking)}"
    try:
        found: list[Finding] = list(module.check(run))
    except MissingDataError:
        return []
    for finding in found:
        _check_finding(finding, rule)
    again: list[Any] = list(module.check(run))
    assert again == found, "it finds something else when it is asked again"
    return found


def _check_finding(finding: Finding, rule: Rule) -> None:
    assert finding.rule == rule.name, f"it is a finding of {finding.rule}, not of {rule.name}"
    assert finding.title, "a finding has a title"
    assert finding.summary, "a finding has a summary"
    assert finding.severity in ("critical", "warning", "info"), finding.severity
    assert finding.confidence in ("high", "medium", "low"), finding.confidence
    if finding.abstained:
        assert finding.reason, "what abstains says why"
        return
    assert finding.evidence, "a finding has evidence"
    for name in ("cost_ns", "gain_ns", "cost_pct"):
        figure = getattr(finding, name)
        assert figure is None or figure >= 0, f"{name} is {figure}"
    assert finding.cost_pct is None or finding.cost_pct <= 100, f"cost_pct is {finding.cost_pct}"
    if finding.cost_ns is not None and finding.gain_ns is not None:
        assert finding.gain_ns <= finding.cost_ns, "it gains more than it costs"
