"""A run: everything known about one execution, as tables that are read when they are asked for."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import polars as pl

from sightline.core import registry
from sightline.core.model.columns import conform_columns, make_empty
from sightline.core.model.constants import keep_single_values
from sightline.core.model.declare import Analysis
from sightline.core.model.describe import write_html, write_repr
from sightline.core.model.store import FROM_FACTS, READ_FAILURES, Part, explain_unreadable
from sightline.core.model.tables import load_table
from sightline.core.units import parse_duration_ns
from sightline.errors import MissingDataError, RequestError

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

# A table of so many rows takes 1.2 GB with all of its columns (600 bytes a row of device_ops,
# measured for 3.3 million by benchmarks/serve_page.py --make): who wants some reads only these, and
# each is read by itself.
MANY_ROWS = 2_000_000

# Of a table of fewer rows all columns are read at once: opening the file takes longer.
FEW_ROWS = 50_000

# What records a table, for people who do not know how it came about.
_RECORDED_BY = {
    "device_ops": "A GPU's timeline:  sightline run -- COMMAND, on a machine with a GPU",
    "profiled_kernels": "Kernels' counters:  sightline run --for kernels -- COMMAND",
    "host_ops": "The CPU's timeline:  sightline run -- COMMAND",
    "memory_events": "Allocations:  sightline run --for memory -- COMMAND",
    "counters": "Power and clocks:  sightline run --for energy -- COMMAND",
}


def _not_recorded(analysis: str, missing: list[str], present: list[str]) -> MissingDataError:
    """What an analysis lacks, what would record it, and what there is."""
    has = textwrap.fill(f"It has: {', '.join(present) or 'nothing'}.", 69)
    return MissingDataError(
        f"'{analysis}' cannot be answered",
        why=f"the recording has no {' and no '.join(missing)}",
        hint="\n".join([*(_RECORDED_BY[t] for t in missing if t in _RECORDED_BY), has]),
    )


_SPAN = {"start_ns", "end_ns"}
_IS_BACKWARD = (pl.col("end_ns") < pl.col("start_ns")).any()


def _mark_order(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The frame with those of its keys marked that are sorted."""
    ids = [frame.get_column(c) for c in keys if c in frame.columns]
    in_order = [key.set_sorted() for key in ids if not key.null_count() and key.is_sorted()]
    return frame.with_columns(in_order)


# In one piece, both ways: compiled code wants that, and would make it again for each question.
def _read_together(rows: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    read = rows.select(columns).collect()
    return (keep_single_values(read) if read.height >= FEW_ROWS else read).rechunk()


def _read_apart(rows: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a large table, one after another, so that only one is there in pieces as well.

    Those of one value are kept as that value: of 15 million calls each would take 120 MB.
    """
    read = (keep_single_values(rows.select(name).collect().rechunk()) for name in columns)
    return pl.concat(read, how="horizontal")


@dataclass(repr=False)
class Run:
    """One execution, built from one or more recordings.

    `window` says which part of the timeline the answers are about: None (each device's first to
    last operation), or a text such as 'steady', 'step:3', '10ms..25ms'.
    """

    # Times that were made, and not read from files, need not be looked at for damage.
    checks_spans: ClassVar[bool] = True

    parts: list[Part]
    window: str | None = None
    _tables: dict[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    _answers: dict[tuple[str, tuple[tuple[str, Any], ...]], pl.DataFrame] = field(
        default_factory=dict, repr=False
    )

    _made: dict[Callable[[Run], Any], Any] = field(default_factory=dict, repr=False)

    # One lock a table and one an answer: threads that want the same thing wait for one of them,
    # others do not. What an analysis asks for has no way back to it, so no two wait for each other.
    _locks: dict[object, RLock] = field(default_factory=dict, repr=False)

    def scan(self, name: str, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """A table, lazily: all declared columns, or at least those named, of all recordings.

        >>> run.scan("device_ops").filter(kind="memcpy").collect().height
        5
        """
        table = load_table(name)
        frames = [f for f in (part.scan(table, columns) for part in self.parts) if f is not None]
        if not frames:
            return make_empty(table.columns).lazy()
        return pl.concat(frames, how="vertical")

    def table(self, name: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """A table in memory, or some of its columns: each is read once.

        Raises StoreError where a file of the store is damaged.

            >>> run.table("device_ops", ["kind", "start_ns"]).shape
            (95, 2)
        """
        every = list(load_table(name).schema)
        wanted = every if columns is None else list(columns)
        with self._locks.setdefault(name, RLock()):
            known = self._tables.get(name)
            is_small = name in FROM_FACTS or self.rows(name) < FEW_ROWS
            asked = every if known is None and is_small else wanted
            if self.checks_spans and _SPAN & set(asked):  # they are compared as they are read
                asked = [c for c in every if c in asked or c in _SPAN]
            more = [c for c in asked if known is None or c not in known.columns]
            if known is None:
                known = self._tables[name] = self._read(name, more)
            elif more:
                read = self._read(name, more)
                known = self._tables[name] = pl.concat([known, read], how="horizontal")
        # Not from the dict: a run with another window may have put less there meanwhile.
        return known[wanted] if wanted else known.select()

    def columns(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        """Some columns of a table, for who alone wants them: those of a large one are not kept.

        Raises StoreError where a file of the store is damaged.
        """
        if not self._is_large(name):
            return self.table(name, columns)
        known = self._tables.get(name)
        if known is None:
            return self._read(name, columns)
        more = [c for c in columns if c not in known.columns]
        every = pl.concat([known, self._read(name, more)], how="horizontal") if more else known
        return every[list(columns)]

    def _read(self, name: str, columns: Sequence[str]) -> pl.DataFrame:
        if name not in FROM_FACTS and not self.rows(
            name
        ):  # of most recordings' most tables: no query is asked
            schema = load_table(name).schema
            return pl.DataFrame(schema={c: schema[c] for c in columns})
        read = _read_apart if self._is_large(name) else _read_together
        try:
            frame = read(self.scan(name, columns), columns)
        except READ_FAILURES as error:
            raise explain_unreadable(name, self.parts[0].store, error) from error
        # Damaged bytes may still be Parquet. No importer lets anything end before it starts.
        if set(frame.columns) >= _SPAN and frame.select(_IS_BACKWARD).item():
            backwards = ValueError("a row ends before it starts")
            raise explain_unreadable(name, self.parts[0].store, backwards)
        return _mark_order(frame, [c.name for c in load_table(name).columns if c.is_id])

    def _is_large(self, name: str) -> bool:
        # Tables from facts are small; to count their rows they would have to be read.
        return name not in FROM_FACTS and self.rows(name) >= MANY_ROWS

    def check_files(self) -> None:
        """Read all files once. Raises StoreError where one is damaged.

        Asked after a failure: only then is it told apart whether a file or the question is wrong.
        """
        for name in registry.list_names("tables"):
            for part in self.parts:
                frame = part.scan(load_table(name))
                try:
                    if frame is not None:
                        frame.collect()
                except READ_FAILURES as error:
                    raise explain_unreadable(name, part.store, error) from error

    def is_all_of(self, importer: str) -> bool:
        """Whether all of its recordings were read by this importer."""
        return set(self.table("recordings", ["format"]).get_column("format")) == {importer}

    def rows(self, name: str) -> int:
        """How many rows a table has, without reading it.

        >>> run.rows("device_ops")
        95
        """
        load_table(name)
        if name in FROM_FACTS:
            return self.table(name).height
        return sum(int(part.facts["rows"].get(name, 0)) for part in self.parts)

    def ask(self, analysis: str, **params: Any) -> pl.DataFrame:
        """The answer of an analysis, computed once per run and set of parameters.

        A time may carry its unit, as on the command line: `threshold_ns="100us"`. Raises
        RequestError for an unknown analysis, an unknown parameter or a wrong value, and
        MissingDataError where the recordings lack what it needs.

            >>> run.ask("breakdown").select("window_ns", "idle_ns").rows()
            [(17444430, 11155540)]
        """
        module = registry.load("analyses", analysis)
        declared: Analysis = module.ANALYSIS
        defaults = {p.name: p.default for p in declared.params}
        unknown = set(params) - set(defaults)
        if unknown:
            raise RequestError(
                f"analysis {analysis} has no parameter '{min(unknown)}'",
                why=f"it has {', '.join(defaults) or 'none'}",
            )
        units = {p.name: p.unit for p in declared.params}
        given = {
            name: _read_value(name, value, defaults[name], units[name])
            for name, value in params.items()
        }
        chosen = {**defaults, **given}
        key = (analysis, tuple(sorted(chosen.items())))
        with self._locks.setdefault(key, RLock()):
            if key not in self._answers:
                self.require(analysis, declared.needs)
                try:
                    answer = module.run(self, **chosen)
                except READ_FAILURES:
                    self.check_files()
                    raise
                self._answers[key] = conform_columns(answer, declared.columns)
        return self._answers[key]

    def require(self, question: str, tables: Sequence[str]) -> None:
        """Raises MissingDataError, of that question, where one of the tables has no rows."""
        missing = [t for t in tables if not self.rows(t)]
        if missing:
            raise _not_recorded(question, missing, self.present())

    def once(self, make: Callable[[Run], T]) -> T:
        """What several analyses or rules make of the run on their way, made the first time only."""
        with self._locks.setdefault(make, RLock()):
            if make not in self._made:
                self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def __repr__(self) -> str:
        return write_repr(self)

    def _repr_html_(self) -> str:
        return write_html(self)

    def present(self) -> list[str]:
        """The tables that have rows."""
        return [name for name in registry.list_names("tables") if self.rows(name)]

    def with_window(self, window: str | None) -> Self:
        """The same run, asked about another part of its timeline.

        >>> run.with_window("5ms..10ms").ask("breakdown").get_column("window_ns").to_list()
        [5000000]
        """
        return self if window == self.window else type(self)(self.parts, window, self._tables)

    def __getstate__(self) -> dict[str, Any]:
        """For workers: where the run lies, and its window. What was read of it is read again."""
        return {"parts": self.parts, "window": self.window}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _read_value(name: str, value: Any, default: Any, unit: str | None) -> Any:
    """A parameter's value in the type of its default. Raises RequestError."""
    kind = type(default)
    if unit == "ns" and isinstance(value, str):
        return parse_duration_ns(value)
    if isinstance(value, kind):
        return value
    try:
        read = kind(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{value!r} is not a value for {name}") from error
    # 2.5 is no number of rows: nothing is cut off without a word.
    if not isinstance(value, str) and read != value:
        raise RequestError(f"{value!r} is not a value for {name}", why=f"it wants {kind.__name__}")
    return read


def page(module: Any) -> str:
    """The documentation that a member of the registry carries: its module's docstring."""
    return inspect.cleandoc(module.__doc__ or "")
