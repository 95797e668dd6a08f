"""Signing in by a provider that others wrote: django-oauth-toolkit, by its own form."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("authlib", reason="the extra 'cluster' is not installed")
pytest.importorskip("oauth2_provider", reason="django-oauth-toolkit is not installed")
pytest.importorskip("requests", reason="the extra 'cluster' is not installed")

import requests

from sightline.cluster.config import Provider
from sightline.doors.http.provider import ProviderLogin
from support.cluster_service import Own, make_rules, run_service
from support.openid_provider import CLIENT, PEOPLE, SECRET
from support.places import ROOT

pytestmark = pytest.mark.timing
PROGRAM = ROOT / "tests" / "support" / "openid_provider.py"
BACK = "http://127.0.0.1:8270/callback"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    folder = tmp_path_factory.mktemp("provider")
    command = [sys.executable, str(PROGRAM), str(folder), str(port), BACK]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}/o"
        child.terminate()


@pytest.fixture
def own(tmp_path: Path, issuer: str) -> Iterator[Own]:
    provider = Provider(issuer, CLIENT, SECRET, BACK)
    with run_service(tmp_path, provider=ProviderLogin(provider, make_rules())) as made:
        yield made


def sign_in(address: str, name: str, word: str) -> str | None:
    """What a browser does at the provider: where it is sent back to, None where it is not."""
    with requests.Session() as browser:
        form = browser.get(address, timeout=30)
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
        assert token is not None
        target = urlsplit(form.url)
        fields = {
            "csrfmiddlewaretoken": token[1],
            "username": name,
            "password": word,
            "next": parse_qs(target.query)["next"][0],
        }
        reply = browser.post(form.url, data=fields, timeout=30, allow_redirects=False)
        if "Location" not in reply.headers:
            return None
        address = f"{target.scheme}://{target.netloc}{reply.headers['Location']}"
        back = browser.get(address, timeout=30, allow_redirects=False).headers["Location"]
        return back if back.startswith(BACK) else None


def go_there(own: Own) -> tuple[str, dict[str, str]]:
    reply = own.ask("/login")
    return reply.headers["Location"], {"Cookie": reply.headers["Set-Cookie"].partition(";")[0]}


def test_a_person_of_the_provider_sees_her_own_jobs(own: Own) -> None:
    address, cookie = go_there(own)
    back = sign_in(address, "ada", PEOPLE["ada"])
    assert back is not None
    reply = own.ask(back.removeprefix("http://127.0.0.1:8270"), **cookie)
    assert reply.status == 303, reply.body
    page = own.ask("/", Cookie=reply.headers["Set-Cookie"].partition(";")[0])
    assert page.status == 200
    assert b"ada" in page.body


def test_a_code_is_good_once_and_for_who_asked(own: Own) -> None:
    address, cookie = go_there(own)
    assert sign_in(address, "ada", "guessed") is None
    back = sign_in(address, "mallory", PEOPLE["mallory"])
    assert back is not None
    stolen = back.removeprefix("http://127.0.0.1:8270")
    # Another one's browser, which began to sign in by itself, is given the address of mallory.
    _, other = go_there(own)
    assert own.ask(stolen, **other).status == 403
    assert own.ask(stolen, **cookie).status == 303
    assert own.ask(stolen, **cookie).status == 403


def test_without_its_secret_nobody_gets_in(tmp_path: Path, issuer: str) -> None:
    provider = Provider(issuer, CLIENT, "another", BACK)
    with run_service(tmp_path, provider=ProviderLogin(provider, make_rules())) as own:
        address, cookie = go_there(own)
        back = sign_in(address, "ada", PEOPLE["ada"])
        assert back is not None
        assert own.ask(back.removeprefix("http://127.0.0.1:8270"), **cookie).status == 403
