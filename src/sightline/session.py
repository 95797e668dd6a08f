"""A session: one run, and everything that can be asked of it. What `sightline.open` returns.

The command line, notebooks and servers are doors to it: they parse, call a method, and draw what
comes back. A run holds tables and knows nothing above itself; a session is a run that answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sightline.answer.displays import Breakdown, Comparison, Findings, Flame, Timeline
from sightline.core.model.declare import Finding, ImportOptions
from sightline.core.model.run import Run

if TYPE_CHECKING:
    from typing import Self

    import polars as pl

    from sightline.answer.answer import Answer
    from sightline.diagnosis.causes import Causes
    from sightline.diagnosis.custom.forms import OwnRule


class Session(Run):
    """A run that can be asked why the program is slow."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """A session of a run that is open already; what was read of it is not read again."""
        return cls(run.parts, run.window, run._tables)

    def findings(
        self, *, rules: Sequence[str] = (), vendor: bool = False, whole: bool = False
    ) -> Findings:
        """Why the program is slow: what all rules find, the largest gain first, abstentions last.

        A list that shows itself in a notebook, with `to_pandas()` and `plot()`.

        `rules` are files or folders of rules of your own (docs/own-rules.md); `vendor` asks those
        that are named after `nsys analyze`, too. Of a run of over four million rows whose
        steps repeat, causes are asked of a few (`sightline.diagnosis.causes`), unless `whole`.
        Raises InputError where a rule of your own is wrong.

            >>> run.findings()[0].title
            'Waiting for the DataLoader'
            >>> run.findings()[0].gain_ns
            11070940
        """
        from sightline.diagnosis.custom.facts import load_checked_rules

        own = load_checked_rules(list(rules)) if rules else []
        found = Findings(self.diagnose(own, vendor=vendor, whole=whole))
        if self.rows("device_ops"):
            found.breakdown = tuple(self.ask("breakdown").to_dicts())
        return found

    def diagnose(
        self, own: Sequence[OwnRule] = (), *, vendor: bool = False, whole: bool = False
    ) -> list[Finding]:
        """As `findings`, with rules of one's own that were read already."""
        return self.causes(own, vendor=vendor, whole=whole).findings

    def causes(
        self, own: Sequence[OwnRule] = (), *, vendor: bool = False, whole: bool = False
    ) -> Causes:
        """As `diagnose`, with what says of which steps the findings are."""
        from sightline.diagnosis.causes import find_causes

        return find_causes(self, own, vendor=vendor, whole=whole)

    def answer(self, own: Sequence[OwnRule] = (), *, whole: bool = False) -> Answer:
        """Why the program is slow, with all that views show of it; `own` as in `diagnose`.

        Of a large run it is made once, and found at the next opening. Raises StoreError.
        """
        from sightline.answer.cache import keep_answer_of

        return keep_answer_of(self, own, whole=whole)

    def report(self, *, whole: bool = False) -> dict[str, Any]:
        """The answer as plain data: what `sightline report --json` prints, findings among it.

        Times are int64 ns, sizes bytes, `_pct` 0 to 100. `whole` is as in `findings`. Raises
        StoreError.

            >>> run.report()["counts"]["device_ops"]
            95
        """
        return self.answer(whole=whole).to_dict()

    def memory(self) -> dict[str, Any]:
        """What fills the device's memory, as data: what `sightline memory --json` prints."""
        from sightline.answer.memory_use import describe_memory

        made: dict[str, Any] = self.keep("memory", lambda: describe_memory(self))
        return made

    def keep(self, word: str, make: Callable[[], Any]) -> Any:
        """What `make` makes of this run as plain data: of a large run, made once for all openings.

        `word` says what is made: letters and hyphens, another for each.
        """
        from sightline.answer.cache import keep_part

        return keep_part(self, f"-{word}", make)

    def sql(self, query: str) -> pl.DataFrame:
        """The answer of a query over the run's tables, by DuckDB. Raises RequestError.

        >>> run.sql("SELECT count(*) AS n FROM device_ops WHERE kind = 'kernel'").item()
        90
        """
        from sightline.answer.sql import answer_query

        return answer_query(self, query)

    def explain(self, what: str | Finding, *, rules: Sequence[str] = ()) -> str:
        """The page of a rule or an analysis, by its name or a finding of it.

        What it looks for, from where on, and what to do. Raises RequestError.

            >>> run.explain(run.findings()[0]) == run.explain("dataloader-starved")
            True
        """
        return explain(what if isinstance(what, str) else what.rule, rules=rules)

    def breakdown(self) -> Breakdown:
        """Where each device's window went, as bars. Raises MissingDataError without a device.

        >>> run.breakdown().to_rows()[0]["idle_ns"]
        11155540
        """
        return Breakdown(self.ask("breakdown"))

    def timeline(self) -> Timeline:
        """A step's operations on their streams, as a picture; of median length.

        Raises MissingDataError without a device.
        """
        self.require("the timeline", ("device_ops",))
        return Timeline(self)

    def compare(self, other: Run) -> Comparison:
        """What changed from this run to another: what `sightline compare --json` prints.

        A dictionary that shows itself. Raises MissingDataError where one has no timeline.

            >>> run.compare(run)["verdict"]["word"]
            'no change'
        """
        from sightline.compare.comparison import compare_samples
        from sightline.compare.sample import take_sample

        sides = [take_sample(self, "before")], [take_sample(other, "after")]
        return Comparison(compare_samples(*sides))

    def critical_path(self) -> dict[str, Any]:
        """What the run's length is made of: what `sightline critical-path --json` prints.

        Times are int64 ns, `pct` 0 to 100. Raises MissingDataError without device operations.

            >>> run.critical_path()["path_ns"]
            17444430
        """
        from sightline.answer.critical_path import describe_path

        return describe_path(self)

    def attribute_graphs(self, capture: Run | None = None) -> pl.DataFrame:
        """Each operation that a graph replays, with operator, module, line, layer and part.

        `capture` is the recording in which the same program captured its graphs; without it,
        operator, module and line are null, unless this recording says when each node was made.
        Raises MissingDataError where `capture` has none.
        """
        from sightline.subjects.serving.captures import attribute_replays, list_captured

        return attribute_replays(self, None if capture is None else list_captured(capture))

    def what_if(self, *, scale: Sequence[str] = (), remove: Sequence[str] = ()) -> dict[str, Any]:
        """The window if some work were faster or gone: what `sightline whatif --json` prints.

        As `run.what_if(remove=["memcpy:HtoD"], scale=["kernel:gemm=0.5"])`. The name of a finding
        alone, as `remove=["dataloader-starved"]`, asks for the window without it; `findings` then
        has what the report says of it. Raises RequestError.

            >>> run.what_if(remove=["memcpy:HtoD"])["saved_ns"]
            176547
        """
        from sightline.answer.what_if import describe_change
        from sightline.answer.what_if_finding import describe_without, names_finding

        if names_finding(scale, remove):
            return describe_without(self, self.findings(), remove[0])
        return describe_change(self, scale, remove)

    def roofline(self) -> pl.DataFrame:
        """Where each kernel lies under its device's ceilings: the analysis `roofline`.

        Of kernels that were sampled and not counted, `sampled_roofline`. Raises MissingDataError.
        """
        sampled = bool(self.rows("pc_samples")) and not self.rows("kernel_metrics")
        return self.ask("sampled_roofline" if sampled else "roofline")

    def flame(
        self, path: str | None = None, *, weight: str | None = None, order: str = "how"
    ) -> Flame:
        """A flame graph that shows itself.

        Written to `path`, too, where one is given: a page, SVG, folded stacks, speedscope or pprof,
        by the ending. `order` is "how" or "why", `weight` one that the recording has. Raises
        RequestError.

            >>> run.flame("flame.svg").to_rows()[0]["own"]
            3144855
        """
        from pathlib import Path

        from sightline.flames.build import build_stacks, choose_weight
        from sightline.flames.drawing import draw_stacks
        from sightline.flames.stacks import explain_idle

        built = build_stacks(self)
        chosen = choose_weight(built, weight)
        title = Path(self.table("recordings").item(0, "path")).name
        shown = explain_idle(built) if order == "why" else built
        if path is not None:
            Path(path).write_bytes(draw_stacks(shown, chosen, title, path))
        return Flame(shown, chosen, title)

    def export(self, path: str, to: str) -> list[str]:
        """Write the run for another tool, as `sightline export --to`; the paths that were written.

        Raises RequestError for an unknown format.
        """
        from pathlib import Path

        from sightline.core import registry

        module = registry.load("exporters", to.replace("-", "_"))
        return [str(written) for written in module.write(self, Path(path))]

    def save(self, path: str) -> None:
        """Write the run to a store: a folder of Parquet files. Raises StoreError."""
        from pathlib import Path

        from sightline.opening.save import save_run

        save_run(self, Path(path))


def open_session(
    paths: Sequence[str],
    *,
    window: str | None = None,
    options: ImportOptions | None = None,
    same_job: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Session:
    """A session of recordings and stores; `progress` as in `open_run`. Raises InputError."""
    from sightline.opening.run import open_run

    run = open_run(paths, options=options, progress=progress, same_job=same_job)
    return Session.of(run).with_window(window)


def explain(name: str, *, rules: Sequence[str] = ()) -> str:
    """The page of a rule or an analysis: what it looks for, from where on, and what to do.

    `rules` are files or folders of rules of your own. Raises RequestError for an unknown name.
    """
    from sightline.answer.explain import explain_name
    from sightline.diagnosis.custom.facts import load_checked_rules

    return explain_name(name, load_checked_rules(list(rules)) if rules else [])
