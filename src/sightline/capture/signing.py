"""Requests over a network that prove to know the daemon's token, and answers that do.

The token itself is never sent. A request carries a time, a number that is used once, and the
HMAC-SHA256 (RFC 2104) of those with its method, path and body; an answer that of the number, its
status and its body. So nothing that was seen on the way can be sent again, or as something else,
and who answers knows the token as well. TLS keeps what is said from others.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sightline.errors import RequestError

VARIABLE = "SIGHTLINE_TOKEN"
TIME, NONCE, PROOF = "X-Sightline-Time", "X-Sightline-Nonce", "X-Sightline-Proof"
# Clocks of a cluster are seconds apart at worst, unless no NTP runs; a request seen later than this
# is refused, and the numbers of those before are forgotten.
WINDOW_S = 120.0
MOST_REMEMBERED = 20_000  # numbers that are remembered: 166 requests a second for all of the window
_LEAST_TOKEN = 16  # characters: 64 bits, where it is hex
_NONCE = re.compile(r"[0-9a-f]{32}")


def read_token(path: str | None) -> str | None:
    """The token of a file that only its owner can read, or of the environment; None without both.

    Raises RequestError.
    """
    if path is None:
        token = os.environ.get(VARIABLE, "").strip()
        where = VARIABLE
        if not token:
            return None
    else:
        where = path
        try:
            state = Path(path).stat()
            token = Path(path).read_text().strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            raise RequestError(f"cannot read the token in {path}", why=why.lower()) from error
        if state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise RequestError(
                f"other users can read the token in {path}",
                hint=f"chmod 600 {path}, and make a new one",
            )
    if len(token) < _LEAST_TOKEN:
        raise RequestError(
            f"the token in {where} is too short",
            why=f"it must have {_LEAST_TOKEN} characters at least",
            hint="openssl rand -hex 32",
        )
    return token


def sign_request(token: str, method: str, path: str, body: bytes) -> dict[str, str]:
    """The headers of a request."""
    when, nonce = f"{time.time():.3f}", os.urandom(16).hex()
    proof = _prove(token, "request", when, nonce, method, path, hash_body(body))
    return {TIME: when, NONCE: nonce, PROOF: proof}


def sign_answer(token: str, nonce: str, status: int, content: str) -> str:
    """The proof of an answer to the request of that number; `content` is the hash of its body."""
    return _prove(token, "answer", nonce, str(status), content)


def is_signed(token: str, nonce: str, status: int, body: bytes, proof: str) -> bool:
    """Whether who answered knows the token."""
    return _is_same(sign_answer(token, nonce, status, hash_body(body)), proof)


def hash_body(body: bytes) -> str:
    """What stands for a body where it is signed."""
    return hashlib.sha256(body).hexdigest()


def _prove(token: str, *words: str) -> str:
    # No word holds a line's end: headers and paths cannot, and the others are ours.
    text = "\n".join(words).encode("utf-8", "backslashreplace")
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


def _is_same(proof: str, given: str) -> bool:
    """Whether they are, in as long a time wherever they differ."""
    return hmac.compare_digest(proof.encode(), given.encode("utf-8", "backslashreplace"))


class Verifier:
    """Whether requests are signed, and come for the first time.

    `now`: the clock, in seconds since 1970; `most`: how many numbers of requests are remembered.
    """

    def __init__(
        self, token: str, now: Callable[[], float] = time.time, most: int = MOST_REMEMBERED
    ) -> None:
        self.token = token
        self._now, self._most = now, most
        self._seen: dict[str, float] = {}
        self._lock = threading.Lock()

    def find_problem(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> str | None:
        """Why a request is refused; None where it is to be answered."""
        when, nonce = str(headers.get(TIME, "")), str(headers.get(NONCE, ""))
        if not _NONCE.fullmatch(nonce) or not re.fullmatch(r"\d{1,12}\.\d{3}", when):
            return "it is not signed"
        proof = _prove(self.token, "request", when, nonce, method, path, hash_body(body))
        given = str(headers.get(PROOF, ""))
        if not _is_same(proof, given):
            return "it is signed with another token"
        apart = float(when) - self._now()
        if abs(apart) > WINDOW_S:
            return (
                f"its clock differs from this machine's by {apart:+.0f} s; the limit is "
                f"{WINDOW_S:.0f} s"
            )
        return self._note(nonce)

    def _note(self, nonce: str) -> str | None:
        now = self._now()
        with self._lock:
            if len(self._seen) >= self._most:
                limit = now - 2 * WINDOW_S
                self._seen = {known: at for known, at in self._seen.items() if at > limit}
            if nonce in self._seen:
                return "it was sent before"
            if len(self._seen) >= self._most:  # only who knows the token gets here
                return "too many requests"
            self._seen[nonce] = now
        return None
