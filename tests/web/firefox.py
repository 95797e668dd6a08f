"""Firefox, driven by its own remote protocol (Marionette): Playwright's core cannot drive Debian's.

A message is its length, a colon, and JSON: [0, number, command, parameters] there, and
[1, number, error, result] back (https://firefox-source-docs.mozilla.org/testing/marionette/).
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFS = {
    "marionette.port": 0,  # any; the profile says which
    "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
    "browser.shell.checkDefaultBrowser": False,
    "app.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}
# Errors of scripts and of the content security policy, as the browser's console has them.
ERRORS = """return Services.console.getMessageArray()
  .filter(m => m instanceof Ci.nsIScriptError && (m.sourceName || "").startsWith("file:"))
  .filter(m => !(m.flags & Ci.nsIScriptError.warningFlag)).map(m => m.errorMessage);"""


def command() -> str | None:
    """Where Firefox is."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


class Firefox:
    """One page of a running Firefox."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._stream = self._connection.makefile("rb")
        self._number = 0
        self._read()  # its greeting
        self.do("WebDriver:NewSession", {"capabilities": {}})

    def do(self, name: str, parameters: dict[str, Any] | None = None) -> Any:
        """A command's result."""
        self._number += 1
        text = json.dumps([0, self._number, name, parameters or {}]).encode()
        self._connection.sendall(str(len(text)).encode() + b":" + text)
        _, number, error, result = self._read()
        assert number == self._number
        assert error is None, error
        return result

    def run(self, script: str) -> Any:
        """What a script returns, run beside the page."""
        return self.do("WebDriver:ExecuteScript", {"script": script, "args": []})["value"]

    def until(self, script: str) -> None:
        """Wait for a script to return what is true."""
        end = time.monotonic() + 30
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """What the console complained of."""
        self.do("Marionette:SetContext", {"value": "chrome"})
        try:
            found: list[str] = self.run(ERRORS)
        finally:
            self.do("Marionette:SetContext", {"value": "content"})
        return found

    def close(self) -> None:
        """No more commands."""
        self._stream.close()
        self._connection.close()

    def _read(self) -> Any:
        length = b""
        while (byte := self._stream.read(1)) != b":":
            assert byte, "Firefox has gone"
            length += byte
        return json.loads(self._stream.read(int(length)))


@contextmanager
def opened(width: int = 1200, height: int = 800) -> Iterator[Firefox]:
    """Firefox with a profile of its own, ended afterwards."""
    found = command()
    assert found is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in PREFS.items()]
        (profile / "user.js").write_text("\n".join(lines))
        process = subprocess.Popen(
            [
                found,
                "--headless",
                "--marionette",
                "--remote-allow-system-access",
                "--no-remote",
                "--profile",
                folder,
                "--width",
                str(width),
                "--height",
                str(height),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            said = profile / "MarionetteActivePort"
            end = time.monotonic() + 60
            while not (said.is_file() and said.read_text().strip()):
                assert process.poll() is None, "Firefox does not start"
                assert time.monotonic() < end, "Firefox does not listen"
                time.sleep(0.05)
            page = Firefox(int(said.read_text()))
            try:
                yield page
            finally:
                page.close()
        finally:
            process.terminate()
            process.wait(timeout=30)
