"""No command writes over what it reads: whatever the file is called, it is the same file."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from support import traces as t
from support.command import sightline

EVENTS = [t.step(1, 0, 90), t.op("aten::mm", 1, 20), t.kernel("gemm", 30, 5)]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return t.write(tmp_path, EVENTS, "in.json")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("link", ["same", "spelt otherwise", "symbolic", "hard"])
@pytest.mark.parametrize(
    "words",
    [
        ["report", "{in}", "-o", "{out}"],
        ["report", "{in}", "--format", "html", "-o", "{out}"],
        ["export", "{in}", "--to", "chrome", "-o", "{out}"],
        ["export", "{in}", "--to", "perfetto", "-o", "{out}"],
        ["flame", "{in}", "-o", "{out}"],
        ["flame", "{other}", "--before", "{in}", "-o", "{out}"],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_output_over_input_is_refused(
    tmp_path: Path, recording: Path, words: list[str], link: str
) -> None:
    ending = ".folded" if "flame" in words else ".json"
    out = tmp_path / f"out{ending}"
    if link == "hard":
        os.link(recording, out)
    elif link == "symbolic":
        out.symlink_to(recording)
    elif link == "spelt otherwise":
        out = tmp_path / "folder" / ".." / "in.json"
        (tmp_path / "folder").mkdir()
    else:
        out = recording
    other = t.write(tmp_path, EVENTS, "other.json")
    before = digest(recording)
    names = {"in": str(recording), "out": str(out), "other": str(other)}
    outcome = sightline(*(w.format(**names) for w in words))
    assert outcome.code == 2
    assert "that is read" in " ".join(outcome.err.split())
    assert digest(recording) == before


def test_output_over_a_file_in_a_folder_that_is_read(tmp_path: Path, recording: Path) -> None:
    before = digest(recording)
    outcome = sightline("report", tmp_path, "-o", recording)
    assert outcome.code == 2
    assert digest(recording) == before


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_export_of_tables_over_a_recording_of_that_name(tmp_path: Path, form: str) -> None:
    recording = t.write(tmp_path, EVENTS, f"device_ops.{form}")
    before = digest(recording)
    outcome = sightline("export", recording, "--to", form, "-o", tmp_path)
    assert outcome.code == 2
    assert digest(recording) == before


def test_store_is_not_replaced_by_what_is_read_from_it(tmp_path: Path, recording: Path) -> None:
    store = tmp_path / "run.sightline"
    assert sightline("import", recording, "-o", store).code == 0
    before = digest(store / "run.json")
    outcome = sightline("import", store, t.write(tmp_path, EVENTS, "o.json"), "-o", store)
    assert outcome.code == 2
    assert digest(store / "run.json") == before


def test_other_names_are_written(tmp_path: Path, recording: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("an earlier report")
    assert sightline("report", recording, "-o", out).code == 0
    assert out.read_text().startswith("{")
    assert sightline("report", recording, "-o", "/dev/null", "--format", "json").code == 0


@pytest.mark.parametrize("words", [["critical-path"], ["stats", "kernels"], ["memory"]])
@pytest.mark.parametrize("ending", [".html", ".svg", ".xlsx"])
def test_no_text_is_written_into_what_is_called_a_page_or_a_picture(
    tmp_path: Path, recording: Path, words: list[str], ending: str
) -> None:
    target = tmp_path / f"out{ending}"
    refused = sightline(*words, recording, "-o", target)
    assert refused.code == 2
    assert f"cannot write {target}" in " ".join(refused.err.split())
    assert not target.exists()
    assert ("report RECORDING -o page.html" in refused.err) == (ending == ".html")


def test_a_flame_graph_with_its_root_at_the_top(tmp_path: Path, recording: Path) -> None:
    """The frames that lie on the root, the first one, are above it, else below."""
    below = []
    for number, words in enumerate(([], ["--icicle"])):
        target = tmp_path / f"{number}.svg"
        assert sightline("flame", recording, "-o", target, *words).code == 0
        _, root, child = re.findall(r"<rect[^>]*>", target.read_text())[:3]
        places = [float(box.partition('y="')[2].partition('"')[0]) for box in (root, child)]
        below.append(places[1] > places[0])
    assert below == [False, True]
