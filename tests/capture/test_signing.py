"""Requests that are signed: once, in time, and as they were meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.capture.signing import (
    NONCE,
    PROOF,
    TIME,
    WINDOW_S,
    Verifier,
    hash_body,
    is_signed,
    read_token,
    sign_answer,
    sign_request,
)
from sightline.errors import RequestError

TOKEN = "0123456789abcdef"
ASKED = ("POST", "/v1/captures")


def test_a_request_is_taken_once() -> None:
    verifier, signed = Verifier(TOKEN), sign_request(TOKEN, *ASKED, b"{}")
    assert verifier.find_problem(*ASKED, signed, b"{}") is None
    assert verifier.find_problem(*ASKED, signed, b"{}") == "it was sent before"


@pytest.mark.parametrize(
    ("asked", "body", "changes", "problem"),
    [
        (("GET", "/v1/captures"), b"{}", {}, "another token"),
        (("POST", "/v1/node"), b"{}", {}, "another token"),
        (ASKED, b"{ }", {}, "another token"),
        (ASKED, b"{}", {NONCE: "0" * 32}, "another token"),
        (ASKED, b"{}", {TIME: "1.000"}, "another token"),
        (ASKED, b"{}", {PROOF: ""}, "another token"),
        (ASKED, b"{}", {PROOF: "\udcff"}, "another token"),
        (ASKED, b"{}", {NONCE: "0"}, "not signed"),
        (ASKED, b"{}", {TIME: "nan"}, "not signed"),
        (ASKED, b"{}", {TIME: "1" * 40 + ".000"}, "not signed"),
    ],
)
def test_what_was_changed_on_the_way(
    asked: tuple[str, str], body: bytes, changes: dict[str, str], problem: str
) -> None:
    signed = sign_request(TOKEN, *ASKED, b"{}")
    found = Verifier(TOKEN).find_problem(*asked, {**signed, **changes}, body)
    assert found is not None
    assert problem in found


def test_other_tokens_and_late_ones() -> None:
    signed = sign_request("another token, as long", *ASKED, b"")
    assert "another token" in str(Verifier(TOKEN).find_problem(*ASKED, signed, b""))
    signed = sign_request(TOKEN, *ASKED, b"")
    late = Verifier(TOKEN, now=lambda: float(signed[TIME]) + WINDOW_S + 1)
    problem = str(late.find_problem(*ASKED, signed, b""))
    assert "its clock differs from this machine's by -121 s" in problem


def test_a_flood_by_who_knows_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded, and forgotten when it could not come again anyway."""
    now = 1000.0
    monkeypatch.setattr("sightline.capture.signing.time.time", lambda: now)
    verifier = Verifier(TOKEN, now=lambda: now, most=3)
    for _ in range(3):
        assert verifier.find_problem(*ASKED, sign_request(TOKEN, *ASKED, b""), b"") is None
    signed = sign_request(TOKEN, *ASKED, b"")
    assert verifier.find_problem(*ASKED, signed, b"") == "too many requests"
    now += 2 * WINDOW_S + 1
    assert verifier.find_problem(*ASKED, sign_request(TOKEN, *ASKED, b""), b"") is None


def test_the_daemon_proves_that_it_knows_the_token_too() -> None:
    proof = sign_answer(TOKEN, "n", 200, hash_body(b"{}"))
    assert is_signed(TOKEN, "n", 200, b"{}", proof)
    assert not is_signed(TOKEN, "n", 200, b"{ }", proof)
    assert not is_signed(TOKEN, "n", 202, b"{}", proof)
    assert not is_signed(TOKEN, "m", 200, b"{}", proof)
    assert not is_signed("another token, as long", "n", 200, b"{}", proof)


def test_where_tokens_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGHTLINE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("SIGHTLINE_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    assert read_token(str(file)) == TOKEN
    file.chmod(0o640)
    with pytest.raises(RequestError, match="other users can read the token"):
        read_token(str(file))
    file.chmod(0o600)
    file.write_text("short")
    with pytest.raises(RequestError, match="too short"):
        read_token(str(file))
    with pytest.raises(RequestError, match="cannot read the token"):
        read_token(str(tmp_path / "none"))
