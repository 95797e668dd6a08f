"""`trace_handler`: what it writes opens, what is old goes, and no training ends by it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import sightline
from support.traces import kernel, write


class _Profile:
    """torch.profiler.profile: a step's number, and a trace with a host's name in it."""

    def __init__(self, folder: Path) -> None:
        self.step_num = 0
        path = write(folder, [kernel("k", 0, 400), kernel("k", 600, 400)])
        self._text = json.dumps(json.loads(path.read_text()) | {"traceName": "/home/me/x.json"})

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text(self._text)


@pytest.fixture
def profile(tmp_path: Path) -> _Profile:
    return _Profile(tmp_path)


def _list(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_the_last_capture_opens_as_its_folder(
    profile: _Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "2")
    handle = sightline.trace_handler(tmp_path / "runs")
    for profile.step_num in (4, 8):
        handle(profile)
    assert _list(tmp_path / "runs") == ["step-000008/rank2.pt.trace.json.gz"]
    (path,) = (tmp_path / "runs").rglob("*.gz")
    assert b"/home/me" not in gzip.decompress(path.read_bytes())
    assert sightline.open(tmp_path / "runs").rows("device_ops") == 2


def test_more_are_kept_where_asked(profile: _Profile, tmp_path: Path) -> None:
    handle = sightline.trace_handler(tmp_path / "runs", "me", False, keep=2)
    for profile.step_num in (1, 2, 3):
        handle(profile)
    assert _list(tmp_path / "runs") == [f"step-00000{n}/me.pt.trace.json" for n in (2, 3)]
    with pytest.raises(ValueError, match="keep"):
        sightline.trace_handler(tmp_path, keep=0)


def test_another_ranks_file_stays(
    profile: _Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handles: list[Any] = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        handles.append(sightline.trace_handler(tmp_path / "runs"))
        handles[-1](profile)
    monkeypatch.setenv("RANK", "0")
    profile.step_num = 4
    handles[0](profile)
    assert _list(tmp_path / "runs") == [
        "step-000000/rank1.pt.trace.json.gz",
        "step-000004/rank0.pt.trace.json.gz",
    ]


def test_what_fails_is_said_and_ends_nothing(
    profile: _Profile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    sightline.trace_handler(tmp_path / "file")(profile)
    assert "could not be written" in capfd.readouterr().err

    def fail(path: str) -> None:
        Path(path).write_text("{")
        raise RuntimeError("Kineto is not there")

    profile.export_chrome_trace = fail  # type: ignore[method-assign]
    sightline.trace_handler(tmp_path / "runs")(profile)
    assert "Kineto is not there" in capfd.readouterr().err
    assert _list(tmp_path / "runs") == []
