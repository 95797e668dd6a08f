"""The questions that a model may ask, each a function of a desk that answers a bounded text.

Their docstrings are what the model reads. They raise SightlineError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sightline.doors.mcp.data_questions import (
    ask_table,
    bound_query,
    draw_flame,
    find_start,
    slice_timeline,
)
from sightline.doors.mcp.desk import Desk
from sightline.doors.mcp.roots import list_files
from sightline.doors.mcp.texts import write_answer, write_page
from sightline.errors import RequestError

_MOST_FILES = 500
# Of what a finding holds, these go into the list of all.
_LISTED, _PRICES = ("rule", "title", "severity", "confidence", "summary"), ("cost_", "gain_")


def open_recordings(
    desk: Desk,
    paths: list[str],
    window: str | None = None,
    same_job: bool = False,
    offset: int = 0,
) -> str:
    """Open recordings of one execution and get an id for the other tools.

    paths: files, folders or .sightline stores below the allowed folder. [] lists what is there,
    and ["FOLDER/"] what is in a folder. window: "steady", "step:N", or a range such as
    "10ms..25ms". same_job: merge ranks anyway.
    """
    if not paths or (len(paths) == 1 and paths[0].endswith("/")):
        rows = list_files(paths[0] if paths else ".", desk.roots, _MOST_FILES)
        return write_page({"unit": "bytes"}, rows, offset, ['open(paths=["NAME"])'])
    name = desk.open(paths, window, same_job)
    session = desk.session(name)
    data = {
        "id": name,
        "paths": desk.label(name),
        "tables": {table: session.rows(table) for table in session.present()},
    }
    return write_answer(data, [f"summary('{name}')", f"findings('{name}')"])


def summarize(desk: Desk, recording: str) -> str:
    """The whole answer on one page: where the time went, findings, kernels, what limits it.

    recording: an id that open answered. Start here.
    """
    from sightline.views.for_llm import write_for_llm

    questions = (
        "## Ask next\n"
        f"- findings('{recording}', finding='F1'): one finding whole, with its evidence\n"
        f"- flame('{recording}'), timeline('{recording}'): who spends the time, and when\n"
        f"- what_if('{recording}', remove=['memcpy:HtoD']): what a change would save\n"
    )
    return write_for_llm(desk.session(recording).answer(), questions)


def list_findings(desk: Desk, recording: str, finding: str | None = None, offset: int = 0) -> str:
    """Why the program is slow: all findings, largest gain first, or one with all its evidence.

    finding: F1, F2, ... as listed. gain is the most that fixing it could save, never added up;
    ns are nanoseconds, pct is % of the window. Those with a reason could not be judged.
    """
    session = desk.session(recording)
    found = [f.to_dict() for f in session.findings()]
    named = {f"F{n}": f for n, f in enumerate(found, 1)}
    if finding is None:
        rows = [
            {"id": n, **{k: v for k, v in f.items() if k in _LISTED or k.startswith(_PRICES)}}
            | ({"reason": f["reason"], "summary": None} if f["abstained"] else {})
            for n, f in named.items()
        ]
        return write_page({}, rows, offset, [f"findings('{recording}', finding='F1')"])
    if finding not in named:
        raise RequestError(f"there is no finding {finding[:40]}", why=f"there are {len(found)}")
    known = {k: v for k, v in named[finding].items() if v not in (None, [], {}, ())}
    if session.rows("device_ops"):  # what its moments are before `timeline` counts from its start
        known["timeline_start_ns"] = find_start(session, "device_ops")
    return write_answer(known, [f"explain('{known['rule']}')", f"timeline('{recording}')"])


def explain(desk: Desk, name: str, offset: int = 0) -> str:
    """The page of a rule, an analysis or an error code ("xid 79"): meaning, thresholds, sources."""
    from sightline.answer.explain import explain_name
    from sightline.core.text import clean_text
    from sightline.doors.mcp.texts import MOST_CHARACTERS

    page = clean_text(explain_name(name))[max(offset, 0) :]
    if len(page) <= MOST_CHARACTERS:
        return page
    end = page.rfind("\n", 0, MOST_CHARACTERS - 80) + 1 or MOST_CHARACTERS - 80
    return f"{page[:end]}(goes on: explain('{name}', offset={max(offset, 0) + end}))"


def compare_recordings(desk: Desk, before: list[str], after: list[str], offset: int = 0) -> str:
    """What changed between two sides, whether it is more than chance, and what explains it.

    before, after: ids; several on a side are runs of one program, which is what shows how runs
    vary. The ratio is after / before with its 95 % interval; rows are operations, largest first.
    """
    from sightline.compare.comparison import compare_samples
    from sightline.compare.sample import take_sample

    if not (before and after):
        raise RequestError("a side is empty", hint="compare(before=['r1'], after=['r2'])")
    sides = [[take_sample(desk.session(n), n) for n in side] for side in (before, after)]
    data = compare_samples(sides[0], sides[1])
    pairs = sorted(data["pairs"], key=lambda row: -abs(row["delta_ns"]))
    kept = ("label", "part", "kind", "before_ns", "after_ns", "delta_ns", "false_discovery_rate")
    head = {
        "verdict": data["verdict"],
        "step": data["step"],
        "limits": [c["text"] for c in data["checks"] if c["effect"] != "ok"],
        "waterfall": data["waterfall"],
    }
    rows = [{k: row[k] for k in kept} for row in pairs if row["delta_ns"]]
    return write_page(head, rows, offset, ["verify(claim={...})", f"findings('{after[0]}')"])


def ask_what_if(
    desk: Desk, recording: str, remove: list[str] | None = None, scale: list[str] | None = None
) -> str:
    """How long the window would be if some work were gone or faster, by replaying dependencies.

    remove: ["memcpy:HtoD"], scale: ["kernel:gemm=0.5"]. Kinds: kernel, comm, memcpy, memset,
    graph, op, call, cpu (CPU time in ranges); after the colon a regex of names. Or the rule of a
    finding, alone: remove: ["dataloader-starved"].
    """
    data = desk.session(recording).what_if(scale=scale or (), remove=remove or ())
    bounds = {"saved_ns_from": data["saved_ns"], "saved_ns_to": data["most_saved_ns"]}
    return write_answer(data | bounds, [f"findings('{recording}')"])


def verify(desk: Desk, claim: dict[str, Any]) -> str:
    """Check a claim against recordings before you state it: yes, no, or cannot be said.

    {"before": PATH, "after": PATH, "metric": "step_ns", "change_pct": -12} or {"recording": PATH,
    "kernel": REGEX, "column": "window_pct", "is": 41.5}; also finding, analysis with where, sql;
    at_least, at_most, change_at_most_pct, within. Paths as in open. Metrics: step_ns, launches,
    peak_memory, kernel:REGEX.
    """
    import json

    from sightline.answer.sql import answer_query
    from sightline.compare.claim_rulings import Openers, verify_claim
    from sightline.compare.claims import read_claims
    from sightline.compare.sides import open_side

    if isinstance(claim.get("floor"), str):
        claim = claim | {"floor": desk.resolve([claim["floor"]])[0]}
    (read,) = read_claims(json.dumps(claim).encode(), "the claim")
    openers = Openers(
        lambda paths, window: open_side(desk.resolve(paths), window=window),
        lambda paths, window: desk.session(desk.open(paths, window, False)),
        lambda run, query: answer_query(run, query, bounds=bound_query()),
    )
    answer = verify_claim(read, openers)
    del answer["given"]
    return write_answer(answer, ["state only claims that were answered with yes"])


# Names as a model reads them.
QUESTIONS: dict[str, Callable[..., str]] = {
    "open": open_recordings,
    "summary": summarize,
    "findings": list_findings,
    "explain": explain,
    "table": ask_table,
    "timeline": slice_timeline,
    "flame": draw_flame,
    "compare": compare_recordings,
    "what_if": ask_what_if,
    "verify": verify,
}
