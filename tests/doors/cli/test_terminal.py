"""What a person reads on a terminal: width, times, names, encodings, completion."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from support import traces
from support.campaigns import cover
from support.command import sightline

LONG = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
    "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
    "{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int, X)"
)
COMMAND = [sys.executable, "-m", "sightline"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    kernels = [traces.kernel(LONG, 10 * i, 5) for i in range(20)]
    return traces.write(tmp_path, [*kernels, traces.kernel("last", 300, 7)])


def on_a_terminal(width: int, *words: object) -> list[str]:
    """The lines that a command prints in a window of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    run = subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=child, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(child)
    seen = b""
    while True:
        try:
            seen += os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
    os.close(parent)
    assert run.wait() == 0
    return seen.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize(("width", "expected"), [(60, 80), (80, 80), (120, 120), (240, 200)])
def test_the_screen_is_as_wide_as_the_window(trace, width, expected):
    lines = on_a_terminal(width, "report", "--no-html", trace)
    assert max(map(len, lines)) == expected
    named = [line for line in lines if line.startswith("elementwise")]
    short, full = (
        "elementwise_ke…<direct_copy_kernel_cuda>",
        "elementwise_kernel<direct_copy_kernel_cuda>",
    )
    assert named[0].startswith(full if width > 80 else short)


@pytest.mark.parametrize("words", [["stats", "kernels"], ["report", "--no-html"], ["findings"]])
def test_a_terminal_that_has_no_size_is_80_columns_wide(trace, words):
    """As script(1) and `docker run -t` leave it."""
    assert on_a_terminal(0, *words, trace) == on_a_terminal(80, *words, trace)


def test_a_file_is_80_columns_wide_whatever_the_window(trace):
    assert max(map(len, sightline("report", trace).out.splitlines())) <= 80


def test_a_table_is_cut_to_the_window_where_that_is_possible(trace):
    wide, narrow = (on_a_terminal(w, "stats", "kernels", trace) for w in (200, 130))
    assert max(map(len, narrow)) <= 130
    assert wide[2].startswith("elementwise_kernel<direct_copy_kernel_cuda>")


def test_moments_of_a_table_count_from_the_windows_start(trace):
    out = sightline("stats", "idle_gaps", trace, "--limit", "1").out.splitlines()
    assert out[0].split()[:6] == ["rank", "device_id", "start", "(ms)", "end", "(ms)"]
    # The longest first.
    assert out[2].split()[2:6] == ["0.195000", "0.300000", "105.0", "µs"]
    # For programs nothing changes.
    assert "start_ns" in sightline("stats", "idle_gaps", trace, "--format", "csv").out


def test_the_full_name_is_an_option_away(trace):
    assert LONG in sightline("stats", "kernels", trace, "--full-names").out
    assert LONG in sightline("stats", "kernels", trace, "--format", "csv").out
    assert LONG not in sightline("stats", "kernels", trace).out


def test_operations_are_counted_in_the_window(trace):
    assert "· 21 GPU operations" in sightline("report", trace).out
    out = sightline("report", "--window", "0us..50us", trace).out
    # The sixth begins with the window's end, and is no part of it.
    assert "window 50.00 µs, 0us to 50us · 5 GPU operations" in out


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        *cover(["ascii", "latin-1", "cp1252"], ["report"]),
        *cover(["ascii", "cp1252"], ["explain launch-bound", "nonsense"]),
    ],
)
def test_an_encoding_without_bars_is_no_bug(trace, encoding, words):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [*COMMAND, *words.split(), *([str(trace)] if words == "report" else [])]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert b"bug" not in done.stderr
    assert ("####" in done.stdout.decode(encoding)) == (words == "report")


def test_duckdb_says_what_it_would_have_known(trace):
    error = sightline("sql", trace, "SELECT count(*) FROM device_op").err
    assert 'Did you mean "device_ops"?' in error
    assert "^" in error


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_analyses(shell, tmp_path):
    script = sightline("completion", shell).out
    for word in ("whatif", "idle_gaps", "launch-bound"):
        assert word in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", str(path)], check=True)


def test_bash_completes_the_name_of_an_analysis(tmp_path):
    path = tmp_path / "script"
    path.write_text(sightline("completion", "bash").out)
    ask = (
        f"source {path}; COMP_WORDS=(sightline stats idle_g); COMP_CWORD=2; "
        "_shtab_sightline sightline idle_g stats; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["idle_gaps"]
