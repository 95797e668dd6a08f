"""Secrets and names of people left out of texts: command lines first of all. One place for all.

A command line is not searched for secrets, since nobody knows all of their forms: only the name of
the program, the names of scripts and the names of flags are kept. Texts that may quote one (a
stack's root, an error) lose what looks like a secret.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

HIDDEN = "…"
_SCRIPT = re.compile(r"[\w.+-]+\.(?:py|sh|pl|R|jl|ipynb)")
# A long flag, or a letter: what follows that is its value (`-pSECRET`).
_FLAG = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]")
# Long flags with one dash, of the launchers of MPI (Open MPI's and MPICH's mpirun(1)).
_ONE_DASH = frozenset(
    ("-np", "-host", "-hosts", "-hostfile", "-machinefile", "-mca", "-ppn", "-npernode", "-env",
     "-genv", "-genvall", "-map-by", "-bind-to", "-rankfile", "-wdir")
)  # fmt: skip
# A process's root frame as py-spy writes it, and what other samplers print of one.
_THREAD = re.compile(r"(?i)^thread (?:0x)?[0-9a-f]+\b")
_PROCESS = re.compile(
    r'^(?P<head>process \d+\s*:?\s*)"?(?P<line>.*?)"?$', re.IGNORECASE | re.DOTALL
)

_NAMES = (
    r"[\w-]*(?:token|passw(?:or)?d|passphrase|pass|pwd|secret|cookie|credentials?|api[_-]?key|"
    r"access[_-]?key|private[_-]?key|auth(?:orization)?)"
)
# Each keeps its first group. Forms of keys: the providers' own documents on secret scanning
# (docs.github.com "Supported secret scanning patterns"); a JWT is RFC 7519.
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\bauthorization\b[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic|token|digest)\s+)?[^\s\"',;]+",
        rf"((?<![\w-])--?{_NAMES}(?:\s*=\s*|\s+))(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)",
        rf"((?<![\w-]){_NAMES}[\"']?\s*=\s*)(?:\"[^\"]*\"|'[^']*'|[^\s\"',;&]+)",
        r"((?<![\w-])-[pk](?:=|\s+))[^\s-][^\s]*",
        r"(\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]*(?=@)",
        r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}",
    )
) + tuple(
    re.compile(pattern)
    for pattern in (
        r"()\bgh[pousr]_[A-Za-z0-9]{16,}",
        r"()\bgithub_pat_\w{20,}",
        r"()\bhf_[A-Za-z0-9]{16,}",
        r"()\bsk-[A-Za-z0-9_-]{16,}",
        r"()\b(?:AKIA|ASIA)[A-Z0-9]{12,}",
        r"()\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    )
)
# Of millions of names none has any of these, and is not searched further.
_SUSPICIOUS = re.compile(
    r"tok|pass|pwd|secret|cookie|cred|key|auth|bearer|://|gh[pousr]_|hf_|sk-|AKIA|ASIA|xox|eyJ|\s-[pk]",
    re.IGNORECASE,
)


def show_command(command: Sequence[str]) -> list[str]:
    """The program, its scripts and the names of its flags; every value is hidden."""
    shown: list[str] = []
    for number, word in enumerate(command):
        name = word.rsplit("/", 1)[-1]
        flag = _FLAG.match(word)
        if number == 0:
            known = redact_text(name)
        elif word in _ONE_DASH:
            known = word
        elif flag is not None and word.startswith("--") and flag.group() == word.split("=")[0]:
            known = flag.group() + (f"={HIDDEN}" if "=" in word else "")
        elif flag is not None and not word.startswith("--"):
            known = flag.group() + (HIDDEN if word != flag.group() else "")
        elif _SCRIPT.fullmatch(name):
            known = name
        elif word == "--":
            known = word
        else:
            known = HIDDEN
        if known != HIDDEN or shown[-1:] != [HIDDEN]:
            shown.append(known)
    return shown


def redact_frame(name: str) -> str:
    """A frame's name; of a process's command line only what show_command keeps."""
    found = _PROCESS.match(name)
    # py-spy names a thread so where it records several processes.
    if found is None or _THREAD.match(found["line"]):
        return redact_text(name)
    try:
        words = shlex.split(found["line"])
    except ValueError:
        words = found["line"].split()
    return found["head"] + " ".join(show_command(words))


# A home folder names its owner.
_HOMES = re.compile(r"(?i)(/home/|/users/|\\users\\)[^/\\ ]+")


def hide_homes(text: str) -> str:
    """The text without the names of users in paths of home folders."""
    return _HOMES.sub(r"\1…", text)


def redact_text(text: str) -> str:
    """The text without what looks like a secret."""
    if _SUSPICIOUS.search(text) is None:
        return text
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text
