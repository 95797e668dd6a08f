"""Several findings of one and the same time are one finding with several ways out."""

from __future__ import annotations

from sightline.core.model.declare import Finding, Price, Rule
from sightline.diagnosis.symptoms import absorb_symptoms

RULES = {
    name: Rule(name, name, explains=explains)
    for name, explains in {"cause": ("wait",), "wait": (), "block": (), "other": ()}.items()
}


def finding(rule: str, gain: int, kernel: str = "gemm", severity: str = "warning") -> Finding:
    return Finding(
        rule,
        f"{rule}: {kernel}",
        severity,
        "said",
        gain=Price(gain, "ns"),
        where={"kernel": kernel, "estimate_pct": 1.0},
        fix=f"mend the {rule}",
    )


def test_three_of_one_time() -> None:
    """The cause takes the wait in, and of the two that gain as much it explains most."""
    found = [finding("block", 1000), finding("wait", 900), finding("cause", 1005)]
    (one,) = absorb_symptoms(found, RULES)
    assert one.rule == "cause"
    assert "also visible as: wait" in one.evidence
    assert "another fix for the same time: block: mend the block" in one.evidence


def test_times_that_differ() -> None:
    found = [finding("block", 1000), finding("other", 900)]
    assert absorb_symptoms(found, RULES) == found


def test_another_kernel_and_a_note() -> None:
    found = [
        finding("block", 1000),
        finding("other", 1000, kernel="norm"),
        finding("other", 1000, severity="info"),
    ]
    assert absorb_symptoms(found, RULES) == found


def test_a_remark_that_says_again_what_limits_the_run() -> None:
    """Of one kernel it is said once that it is most of the time."""
    rules = {"busy": Rule("busy", "busy", explains=("one",)), "one": Rule("one", "one")}
    where = {"kernel": "gemm"}
    busy = Finding("busy", "busy", "info", "said", where=where, states_limit=True)
    one = Finding("one", "one", "info", "said", cost=Price(10, "ns"), where=where)
    assert absorb_symptoms([busy, one], rules) == [busy]
    other = Finding("one", "one", "info", "said", cost=Price(10, "ns"), where={"kernel": "norm"})
    assert absorb_symptoms([busy, other], rules) == [busy, other]
