"""A certificate of this machine's loopback, as each node of a cluster has one."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sightline.capture.server import make_context


@dataclass(frozen=True)
class Certificate:
    """It signs itself, so that its file is its authority's, too."""

    certificate: Path
    key: Path

    @property
    def own(self) -> ssl.SSLContext:
        """Of a daemon that shows it."""
        return make_context(str(self.certificate), str(self.key))

    @property
    def trusted(self) -> ssl.SSLContext:
        """Of who asks such a daemon."""
        return ssl.create_default_context(cafile=str(self.certificate))


def make_certificate(folder: Path) -> Certificate:
    """For 127.0.0.1; the test is skipped where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    made = Certificate(folder / "certificate", folder / "key")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    names = ["-subj", "/CN=node", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(["openssl", *words.split(), *names, *files], check=True, capture_output=True)
    return made
