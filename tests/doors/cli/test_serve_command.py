"""`sightline serve` as a person runs it."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from support.command import sightline
from support.traces import kernel, launch, write

TRACE = [launch(0, 5, 1), kernel("gemm", 10, 20, 1)]


@pytest.mark.pages
def test_it_prints_the_address_and_answers_there(tmp_path):
    write(tmp_path, TRACE, name="t.json")
    server = subprocess.Popen(
        [sys.executable, "-m", "sightline.doors.cli.main", "serve", str(tmp_path / "t.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as answer:
            assert b"<title>t.json \xc2\xb7 sightline</title>" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(url.rsplit("/", 2)[0] + "/guess/")
        refused.value.close()
    finally:
        server.terminate()
        _, said = server.communicate(timeout=10)
    assert "Ctrl-C" in said
    assert url.split("/")[3] not in said  # the token is on stdout only


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--host", "everywhere"], "not an IP address"),
        (["--port", "70000"], "no port 70000"),
        (["--host", "203.0.113.1"], "cannot listen"),
    ],
)
def test_a_wrong_address_is_said(tmp_path, option, words):
    trace = write(tmp_path, TRACE, name="t.json")
    outcome = sightline("serve", trace, *option)
    assert outcome.code == 2
    assert words in outcome.err
