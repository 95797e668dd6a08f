"""People's own rules: the three forms, hand-computed answers, bad files, and attacks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline
from sightline.diagnosis.custom import check, document, expression, facts, forms
from sightline.doors.cli.main import main
from sightline.errors import InputError
from support.campaigns import examples
from support.corpus import SHARED
from support.histories import Phase, write_history
from support.places import ROOT
from support.processor_time import takes_at_most
from support.simulated import simulated

COCKPIT = SHARED / "reference" / "cc_rules"

# A job as ClusterCockpit's schema has it: statistics over the job, limits of the sub-cluster.
LIMITS = {"peak": 200.0, "normal": 100.0, "caution": 50.0, "alert": 20.0}
JOB = {"shared": "none", "duration": 3600.0}


def metric(avg, **more):
    return {"avg": avg, "min": avg / 2, "max": avg * 1.5, "limits": LIMITS, **more}


def loaded(text: str, name: str = "mine.yaml"):
    return forms._rule(document.parse(text, name), Path(name))


def outcome(text: str, names):
    return check.evaluate(loaded(text), names)


# --- ClusterCockpit's form ---------------------------------------------------------------------

# Rule, metrics, whether it holds, and what its hint must say: computed by hand from the file.
COCKPIT_CASES = [
    # peak 200 × factor 0.8 = 160; 170 > 160; 170 / 200 = 85 %
    ("memoryBound", {"mem_bw": metric(170.0)}, True, "170 GB/s (85% of peak)"),
    ("memoryBound", {"mem_bw": metric(160.0)}, False, None),  # not above
    # 200 × 0.85 = 170; 160 < 170
    ("lowload", {"cpu_load": metric(160.0)}, True, "160 is below the threshold 170 (0.85)"),
    ("lowload", {"cpu_load": metric(170.0)}, False, None),
    # 200 × 1.2 = 240
    ("highload", {"cpu_load": metric(250.0)}, True, "250 exceeds the oversubscription threshold"),
    ("highload", {"cpu_load": metric(239.0)}, False, None),
    # max = 1.5 × 20 = 30 > alert 20; 30 / 200 = 15 %
    ("highMemoryUsage", {"mem_used": metric(20.0)}, True, "30 GB (15% of 200 GB"),
    ("highMemoryUsage", {"mem_used": metric(13.0)}, False, None),  # max 19.5
    # both under alert 20; 10 / 200 = 5 %, 19 / 200 = 9.5 %
    (
        "lowUtilization",
        {"flops_any": metric(10.0), "mem_bw": metric(19.0)},
        True,
        "10 GF/s (5% of peak) and memory bandwidth 19 GB/s (9.5% of peak)",
    ),
    ("lowUtilization", {"flops_any": metric(10.0), "mem_bw": metric(20.0)}, False, None),
]


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "metrics", "holds", "says"), COCKPIT_CASES)
def test_clustercockpits_rules_give_the_answer_by_hand(name, metrics, holds, says):
    (rule,) = forms.load_rules([str(COCKPIT / f"{name}.json")])
    found = check.evaluate(rule, {**metrics, "job": JOB})
    assert (rule.form, found.holds) == (forms.COCKPIT, holds)
    if says:
        assert says in check.fill_text(rule.hint, found.names)
    # The requirements: a shared job and a short one are none of the rule's.
    for other in ({**JOB, "shared": "multi_user"}, {**JOB, "duration": 600.0}):
        assert check.evaluate(rule, {**metrics, "job": other}).holds is False
    unknown = check.evaluate(rule, {**metrics, "job": {"duration": 3600.0}})
    assert unknown.holds is None
    assert "job.shared" in unknown.reason


@pytest.mark.corpus
def test_a_folder_of_rules_is_read_whole():
    files = [f for f in COCKPIT.glob("*.json") if f.name != "parameters.json"]
    assert len(forms.load_rules([str(COCKPIT)])) == len(files) == 5


# --- Puzzle Jobs' form -------------------------------------------------------------------------

PUZZLE = """{
  "tag": "low_cpu_load",
  "threshold": "config.low_cpu_threshold",
  "metrics": ["cpu_load"],
  "vars": {
    "avg_load": "mean(cpu_load.data)",
    "low_load": "avg_load < threshold"
  },
  "trigger": "low_load == True"
}
"""


@pytest.mark.parametrize(("samples", "holds"), [((1.0, 2.0, 6.0), True), ((4.0, 5.0, 6.0), False)])
def test_puzzle_jobs_form(tmp_path, samples, holds):
    (tmp_path / "low.json").write_text(PUZZLE)
    (tmp_path / "config.json").write_text('{"low_cpu_threshold": 4}')
    (rule,) = forms.load_rules([str(tmp_path)])
    found = check.evaluate(rule, {"cpu_load": {"data": samples}})
    assert (rule.form, rule.tag, found.holds) == (forms.PUZZLE, "low-cpu-load", holds)
    assert found.names["avg_load"] == sum(samples) / 3


def test_a_config_that_lacks_the_value_is_said():
    found = outcome(PUZZLE, {"cpu_load": {"data": (1.0,)}})
    assert found.holds is None
    assert "config.low_cpu_threshold" in found.reason


# --- ours, on a run ----------------------------------------------------------------------------


def page_example() -> str:
    text = (ROOT / "docs" / "own-rules.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# upload-limit.*?)```", text, re.S)
    return block


@pytest.fixture
def example(tmp_path) -> str:
    path = tmp_path / "upload-limit.yaml"
    path.write_text(page_example(), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> str:
    from synth import SCENARIOS, kineto

    folder = tmp_path_factory.mktemp("h2d")
    kineto.write(SCENARIOS["h2d_bound"](), folder, dialect="2025")
    return str(folder)


def test_the_pages_example_finds_what_the_page_says(example, recording, capsys):
    code = main(["findings", recording, "--rules", example, "--json", "--fail-on", "upload-limit"])
    found = {f["rule"]: f for f in json.loads(capsys.readouterr().out)}
    mine = found["upload-limit"]
    run = simulated("h2d_bound").run
    parts = run.ask("breakdown")
    assert code == 1
    assert mine["cost_ns"] == parts["exposed_copy_ns"].sum()
    assert mine["cost_pct"] == pytest.approx(
        100 * parts["exposed_copy_ns"].sum() / parts["window_ns"].sum()
    )
    assert f"{parts['exposed_copy_pct'].max():.1f} %" in mine["summary"]
    assert mine["severity"] == "warning"
    assert mine["fix"].startswith("keep the input")
    assert any(line.startswith("share = ") for line in mine["evidence"])
    assert any("upload-limit.yaml, line" in s for s in mine["sources"])


def test_the_report_takes_own_rules_too(example, recording, capsys):
    assert main(["report", recording, "--rules", example, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (mine,) = [f for f in data["findings"] if f["rule"] == "upload-limit"]
    assert 0 < mine["gain_ns"] <= max(row["window_ns"] for row in data["breakdown"])


def test_a_rule_of_ones_own_is_listed_and_explained(example, capsys):
    assert main(["rules", "--rules", example]) == 0
    assert "upload-limit" in capsys.readouterr().out
    assert main(["explain", "upload-limit", "--rules", example]) == 0
    assert "breakdown.exposed_copy_pct.max" in capsys.readouterr().out


def test_what_a_recording_lacks_is_not_judged(tmp_path, recording, capsys):
    path = tmp_path / "hot.yaml"
    path.write_text("tag: hot\nmetrics: [gpu_temperature_c]\nrule: gpu_temperature_c.max > 80\n")
    assert main(["findings", recording, "--rules", str(path), "--json"]) == 0
    (hot,) = [f for f in json.loads(capsys.readouterr().out) if f["rule"] == "hot"]
    assert hot["abstained"]
    assert "gpu_temperature_c" in hot["reason"]


def test_statistics_are_those_of_the_values():
    import polars as pl

    found = facts.describe_column(pl.Series([4, None, 2, 9], dtype=pl.Int64))
    assert found == {
        "avg": 5.0,
        "mean": 5.0,
        "min": 2.0,
        "max": 9.0,
        "median": 4.0,
        "sum": 15.0,
        "std": pytest.approx(13**0.5),
        "count": 3.0,
        "first": 4.0,
        "last": 9.0,
        "data": (4.0, 2.0, 9.0),
    }
    assert facts.describe_column(pl.Series([None], dtype=pl.Float64)) == {"count": 0.0}
    assert facts.make_identifier("GPU Power Usage [W]") == "gpu_power_usage_w"


# --- expressions -------------------------------------------------------------------------------

NAMES = {"x": 4.0, "m": {"avg": 3.0, "data": (1.0, 2.0, 6.0), "limits": {"peak": 10.0}}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x * 2 + 1", 9.0), ("x ** 0.5", 2.0), ("-x % 3", 2.0), ("7 // 2", 3.0),
        ("m.avg / m.limits.peak * 100", 30.0), ("x > 3 && !(m.avg > 5)", True),
        ("x < 3 || m.avg == 3", True), ("1 < x <= 4", True), ('"a && b" == "a && b"', True),
        ("mean(m.data)", 3.0), ("max(m.data) - min(m.data)", 5.0), ("median(m.data)", 2.0),
        ("len(m.data)", 3.0), ("sum(m.data * 2)", 18.0), ("any(m.data > 5)", True),
        ("all(m.data > 5)", False), ("max(x, 9)", 9.0), ("round(2.6)", 3.0),
        ("x if x > 9 else 1", 1.0), ("true", True), ("abs(-x)", 4.0),
    ],
)  # fmt: skip
def test_an_expressions_value(text, value):
    assert expression.parse_expression(document.Value(text, "f", 1)).value(NAMES) == value


ATTACKS = [
    "__import__('os').system('true')", "().__class__.__bases__[0].__subclasses__()",
    "m.__class__", "m._x", "m.data.__len__()", "x.real", "open('/etc/passwd')", "eval('1')",
    "getattr(m, 'avg')", "[i for i in m.data]", "(lambda: 1)()", "m['avg']", "f'{x}'",
    "x := 3", "{1: 2}", "m.data[0]", "print(1)", "1 << 9999999", "x; x", "import os",
    "'a' * 3 if x else exec('1')", "mean.__globals__", "mean(*m.data)", "mean(value=m.data)",
    "await x", "yield", "...", "b'a'", "1j", "(" * 300 + "1" + ")" * 300, "-" * 1500 + "1",
    "1" + " + 1" * 600, "9" * 400, "1e999",
]  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS)
def test_what_no_expression_may_hold_is_refused_with_its_line(text):
    with pytest.raises(InputError, match=r"mine\.yaml, line 2"):
        loaded(f"tag: t\nrule: {json.dumps(text)}\nparameters: {{x: 1}}\nmetrics: [m]\n")


@pytest.mark.parametrize(
    "text",
    ["9**9**9", "9**9**9**9**9", "10.0**300 * 10.0**300 > x", "'a' * 999999999", "'%99999999d' % 1",
     "x / 0", "m.data > 1", "m.data + m.limits", "-'a'", "(-8) ** 0.5", "x < 'a'", "mean(x)",
     "sqrt(-1)", "m.data ** 9999 == x", "m"],
)  # fmt: skip
def test_what_cannot_be_computed_is_said_at_once(text):
    with takes_at_most(1):
        found = check.evaluate(
            loaded(f"tag: t\nrule: {json.dumps(text)}\nparameters: {{x: 4}}\nmetrics: [m]\n"),
            NAMES,
        )
    assert found.holds is None
    assert found.reason.startswith("mine.yaml, line 2: ")


# --- files -------------------------------------------------------------------------------------

GOOD = 'tag: t\nname: N\nmetrics: [breakdown]\nparameters: {most: 5}\nvariables:\n  idle: breakdown.idle_pct.max\nrule: idle > most\nhint: "{idle:.1f}"\n'  # noqa: E501


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "empty"),
        ("tag: t\n\trule: x", 2, "no YAML"),
        ("tag: t\nrule: [", 2, "no YAML"),
        ("5", 1, "a rule is expected"),
        ("tag: t", 1, "no 'rule'"),
        ("rule: '1'", 1, "no 'tag'"),
        ("tag: T!\nrule: '1'", 1, "'T!' is not"),
        ("tag: t\ntag: u\nrule: '1'", 2, "given twice"),
        ("tag: t\nrule: '1 +'", 2, "not an expression"),
        ("tag: t\nrule: y > 1", 2, "'y' is not known"),
        ("tag: t\nrule: 1 > 0\nruel: 1", 3, "no 'ruel'"),
        ("tag: &a t\nrule: *a", 2, "aliases"),
        ("tag: t\nrule: '1'\nmetrics: idle", 3, "a list"),
        ("tag: t\nparameters:\n  max: 3\nrule: '1'", 3, "means something else"),
        ("tag: t\nvariables:\n  a: b + 1\n  b: 1\nrule: a", 3, "'b' is not known"),
        ("tag: t\nrule: '1'\nseverity: bad", 3, "a severity must be one of"),
        ("tag: t\nparameters: [p]\nrule: p > 1", 2, "has no value"),
        ("rules:\n- tag: t\n  rule: '1'\nmore: 1", 4, "'more' is not known"),
        ("tag: 2026-01-01\nrule: '1'", 1, "is not"),
        ("- " * 500, 1, "nested too deeply"),
    ],
)
def test_a_bad_file_is_an_error_with_file_line_and_reason(text, line, why, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        forms.load_rules([str(path)])
    assert caught.value.what == f"{path}, line {line}"
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("breakdown.idle > 1", "not a column of the analysis breakdown"),
        ("breakdown.idle_pct > 1", "does not end in a statistic"),
        ("breakdown.idle_pct.most > 1", "does not end in a statistic"),
    ],
)
def test_a_wrong_column_is_an_error_before_anything_runs(rule, why, tmp_path, capsys):
    path = tmp_path / "bad.yaml"
    path.write_text(f"tag: t\nmetrics: [breakdown]\nrule: {rule}\n")
    assert main(["findings", "there-is-no-recording.json", "--rules", str(path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "line 3" in said
    assert why in said


def test_a_tag_that_is_taken_is_refused(tmp_path):
    for text, by in (
        ("tag: launch-bound\nrule: '1'", "a rule of sightline"),
        ("- {tag: t, rule: '1'}\n- {tag: t, rule: '1'}", "line 1"),
    ):
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with pytest.raises(InputError, match=by):
            forms.load_rules([str(path)])


def test_json_with_tabs_knows_its_lines():
    text = '{\n\t"tag": "t",\n\t"rule": "nothing > 1"\n}'
    with pytest.raises(InputError, match="line 3"):
        loaded(text)


broken = st.tuples(
    st.integers(0, len(GOOD)),
    st.integers(0, 12),
    st.text("tag:{}[]'\"!&*|>-\n\t #x1\0é", max_size=6),
).map(lambda t: GOOD[: t[0]] + t[2] + GOOD[t[0] + t[1] :])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["tag", "rule", "metrics", "vars", "variables", "parameters", "trigger"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150), deadline=None)
@given(broken | anything.map(json.dumps))
def test_any_file_is_a_rule_or_an_error_with_a_line(text):
    try:
        rule = loaded(text)
    except InputError as error:
        assert re.search(r"mine\.yaml, line \d+", str(error))
    else:
        assert check.evaluate(rule, NAMES).holds in (True, False, None)


def test_the_rule_of_puzzle_fires_word_for_word_on_our_own_history(tmp_path: Path) -> None:
    """cpu_load is what `sightline watch` calls load; mem_used counts in GB."""
    rule = {
        "tag": "low_cpu_load",
        "threshold": "config.low_cpu_threshold",
        "metrics": ["cpu_load"],
        "vars": {"avg_load": "mean(cpu_load.data)", "low_load": "avg_load < threshold"},
        "trigger": "low_load == True",
    }
    memory = {
        "tag": "memory",
        "metrics": ["mem_used"],
        "rule": "mem_used.max > 15",
        "hint": "{mem_used.max} GB",
    }
    host = {"power": 50.0, "load": 2.0, "host memory used": 16e9}
    history = write_history(tmp_path / "history", [Phase(60, {-1: host})])
    run = sightline.open(str(history))
    (tmp_path / "config.json").write_text('{"low_cpu_threshold": 3}')
    for name, made in (("puzzle", rule), ("memory", memory)):
        (tmp_path / f"{name}.json").write_text(json.dumps(made))
    paths = [str(tmp_path / "puzzle.json"), str(tmp_path / "memory.json")]
    told = {f.rule: f.summary for f in run.findings(rules=paths) if not f.abstained}
    assert "low-cpu-load" in told
    assert told["memory"] == "16 GB"
    (tmp_path / "config.json").write_text('{"low_cpu_threshold": 1.5}')
    told = {f.rule: f.summary for f in run.findings(rules=paths) if not f.abstained}
    assert "low-cpu-load" not in told
