"""Every error that sightline raises.

    SightlineError
    ├── InputError              the recording or the path is wrong
    │   ├── UnknownFormatError  no importer recognises the file
    │   └── DamagedError        nothing usable could be read from it
    ├── RequestError            the question is wrong: an unknown name, a bad option
    │   └── MissingDataError    the question is fine, but this recording does not hold the answer
    └── StoreError              a .sightline store is unreadable or from another version

Each carries what happened, where, why, and what to type next; the command line prints these
four and exits with 2. Anything else that escapes is a bug of ours (exit 3).
"""

from __future__ import annotations


class SightlineError(Exception):
    """The base of all errors that are meant for the user.

    `what` is one sentence without a full stop; `why` and `hint` are optional sentences.
    """

    def __init__(self, what: str, *, why: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.why = why
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.why is None else f"{self.what}: {self.why}"
        return text if self.hint is None else f"{text}\n{self.hint}"

    def sentence(self) -> str:
        """All of it as one clause, to stand inside another sentence."""
        text = self.what if self.why is None else f"{self.what}: {self.why}"
        if self.hint is None:
            return text
        hint = " ".join(self.hint.split("\n")).rstrip(".")
        return f"{text}; {hint[:1].lower()}{hint[1:]}"


class InputError(SightlineError):
    """A path or recording cannot be used as it is."""


class UnknownFormatError(InputError):
    """No importer recognises the file's content."""


class DamagedError(InputError):
    """The file's format is known, but nothing usable could be read."""


class RequestError(SightlineError):
    """An unknown analysis, table, rule or option value."""


class MissingDataError(RequestError):
    """The recording does not contain what the question needs."""


class StoreError(SightlineError):
    """A .sightline store is damaged or was written by another version."""
