"""What each address answers, and to whom. No sockets here.

Programs, with a token: POST /write, /api/v2/write, /api/write (line protocol), /api/v1/write
(Prometheus' remote write), /api/jobs/start_job/ and stop_job/ (ClusterCockpit's), GET /api/jobs,
/api/job, /api/lines. People:
the pages of views/cluster, known by a proxy's header, a provider, or a token once. No path is ever
a file's but the number of a recording.
"""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from sightline.cluster.access import (
    ADMIN,
    INGEST,
    SUPPORT,
    Rules,
    Sessions,
    Visitor,
    find_proxied,
    find_token,
)
from sightline.cluster.documents import add_cluster
from sightline.cluster.lines import write_samples
from sightline.cluster.notes import PRIVATE, Notes
from sightline.cluster.points import PointReader
from sightline.cluster.remote_write import read_points
from sightline.cluster.search import Search
from sightline.cluster.store import DoubleError, FullError, Store
from sightline.cluster.tracing import Tracer
from sightline.doors.http.messages import HTML, JSON, Reply, Request, go, say
from sightline.errors import RequestError, SightlineError
from sightline.subjects.jobs.judging import judge_job
from sightline.version import __version__
from sightline.views.cluster import pages as pages_module
from sightline.views.cluster.frame import show, write_page
from sightline.views.cluster.pages import Pages
from sightline.views.jobs.page import describe_job

_DAY_NS = 86_400 * 10**9
_STYLE = (Path(pages_module.__file__).parent / "style.css").read_bytes()
# Nothing but our own style sheet; the report of a recording has its script in the file.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": _POLICY,
}
_NOBODY = Visitor("not signed in", "")

Login = Callable[[Request], tuple[Reply, Visitor | None]]


class Service:
    """A store behind addresses. May be asked by several threads."""

    def __init__(
        self,
        cluster: str,
        store: Store,
        search: Search,
        notes: Notes,
        rules: Rules,
        *,
        tracer: Tracer | None = None,
        reader: PointReader | None = None,
        secure: bool = False,
        provider: Login | None = None,
        keep_ns: int = 14 * _DAY_NS,
    ) -> None:
        self._cluster, self._store, self._search, self._notes = cluster, store, search, notes
        self._rules, self._tracer, self._secure = rules, tracer, secure
        self._reader, self._provider, self._keep_ns = reader or PointReader(), provider, keep_ns
        self._pages = Pages(store, search, notes, may_trace=tracer is not None)
        self.sessions = Sessions()

    def answer(self, request: Request) -> Reply:
        """The reply, with the headers that all have."""
        try:
            reply = self._answer(request)
        except (RequestError, ValueError) as error:
            reply = say(400, *_explain(error))
        except FullError as error:
            reply = Reply(503, say(503, str(error)).body, JSON, {"Retry-After": "10"})
        except OSError as error:  # a full disk: what was sent is not kept, and the sender told
            told = error.strerror or str(error)
            is_asked = request.method in ("GET", "HEAD")
            reply = (
                say(503, "it cannot be read now", told)
                if is_asked
                else say(507, "it could not be kept", told)
            )
        except sqlite3.Error as error:
            reply = say(507, "it could not be kept", str(error))
        except SightlineError as error:
            reply = say(400, *_explain(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            reply = say(500, f"a bug in sightline: {type(error).__name__}")
        return Reply(reply.status, reply.body, reply.kind, {**_HEADERS, **reply.headers})

    def _answer(self, request: Request) -> Reply:
        path = request.path.rstrip("/") or "/"
        if path == "/health":
            return Reply(200, json.dumps({"status": "pass", "version": __version__}).encode())
        if path == "/style.css":
            return Reply(200, _STYLE, "text/css; charset=utf-8")
        if path in _WRITES or path == _REMOTE_WRITE:
            return self._write(request, path)
        if path in ("/api/jobs/start_job", "/api/jobs/stop_job"):
            return self._change_job(request, path)
        if path.startswith("/api/"):
            return self._ask(request, path)
        if path == "/enter":
            return self._enter(request)
        if path in ("/login", "/callback") and self._provider is not None:
            reply, visitor = self._provider(request)
            return reply if visitor is None else self._begin(visitor)
        if request.method == "POST":
            return self._change(request, path)
        return self._show(request, path)

    # -- programs -----------------------------------------------------------------------------

    def _write(self, request: Request, path: str) -> Reply:
        """Line protocol or remote write: 204 once it is on the disk."""
        refused = self._refuse_sender(request)
        if refused is not None:
            return refused
        query, now_ns = request.query, time.time_ns()
        cluster = query.get("cluster") or self._cluster
        oldest_ns = now_ns - self._keep_ns
        if path == _REMOTE_WRITE:
            if _VERSION_2 in request.headers.get("Content-Type", ""):  # its sender tries 1.0 then
                return say(415, "only remote write 1.0 is supported")
            batch = read_points(request.unpack(), cluster, now_ns, oldest_ns)
        else:
            precision = query.get("precision")
            batch = self._reader.read(request.unpack(), cluster, precision, oldest_ns=oldest_ns)
        self._store.write_points(batch)
        if not batch.refused:
            return Reply(204)
        why = "; ".join(f"{count} × {reason}" for reason, count in batch.reasons.items())
        # As Influx: what could be kept was, and the sender hears of the rest.
        return say(400, f"{batch.refused} lines of {batch.refused + len(batch.series)}", why)

    def _change_job(self, request: Request, path: str) -> Reply:
        refused = self._refuse_sender(request)
        if refused is not None:
            return refused
        document = add_cluster(request.read_json(), self._cluster)
        try:
            if path.endswith("start_job"):
                key = self._store.start_job(document)
                return Reply(201, json.dumps({"msg": "success", "id": key}).encode())
            key = self._store.stop_job(document)
            return Reply(200, json.dumps({"msg": "success", "id": key}).encode())
        except DoubleError as error:  # as cc-backend answers
            return say(422, str(error))

    def _refuse_sender(self, request: Request) -> Reply | None:
        if request.method not in ("POST", "PUT"):
            return Reply(405, say(405, "POST is answered").body, JSON, {"Allow": "POST"})
        visitor = find_token(request.headers, self._rules)
        if visitor is None:
            return _refuse()
        if visitor.role not in (INGEST, ADMIN):
            return say(403, "the token's role may not send data")
        return None

    def _ask(self, request: Request, path: str) -> Reply:
        """Data for programs, of what the token's owner may see."""
        visitor = self._recognize(request)
        if visitor is None or visitor.role == INGEST:
            return _refuse()
        if request.method != "GET":
            return Reply(405, say(405, "GET is answered").body, JSON, {"Allow": "GET"})
        if path == "/api/jobs":
            wanted = self._pages.read_wanted(visitor, request.query)
            most = pages_module.read_number(request.query, "most", 0, 1000) or 50
            rows, count = self._search.list_jobs(
                wanted, request.query.get("sort") or "start", most=most
            )
            return _data({"count": count, "jobs": rows})
        if path == "/api/job":
            _, job = self._pages.find_job(visitor, request.query.get("id", ""))
            return _data(describe_job(job, list(judge_job(job))))
        if path == "/api/lines":
            _, job = self._pages.find_job(visitor, request.query.get("id", ""))
            return Reply(200, write_samples(job).encode(), "text/plain; charset=utf-8")
        return say(404, "nothing has this name")

    # -- people -------------------------------------------------------------------------------

    def _recognize(self, request: Request) -> Visitor | None:
        """Who asks: by a proxy's header, a session, or a token."""
        return (
            find_proxied(request.headers, request.peer, self._rules)
            or self.sessions.find(request.read_cookie())
            or find_token(request.headers, self._rules)
        )

    def _show(self, request: Request, path: str) -> Reply:
        if request.method not in ("GET", "HEAD"):
            return Reply(405, say(405, "GET is answered").body, JSON, {"Allow": "GET"})
        visitor = self._recognize(request)
        if visitor is None or visitor.role == INGEST:
            if self._provider is not None:
                return go("/login")
            return _page(401, "Sign in", [_ENTER], _NOBODY)
        known: dict[str, Callable[..., str]] = {
            "/": self._pages.show_jobs,
            "/job": self._pages.show_job,
            "/waste": self._pages.show_waste,
            "/owners": self._pages.show_owners,
            "/nodes": self._pages.show_nodes,
            "/compare": self._pages.show_comparison,
        }
        if path == "/trace":
            return self._show_trace(visitor, request)
        if path not in known:
            return _page(404, "Nothing is here", ["<p>There is no such page.</p>"], visitor)
        form = self.sessions.sign(visitor.name)
        try:
            text = known[path](visitor, request.query, form)
        except SightlineError as error:
            reason, why = _explain(error)
            told = f"<p>{show(reason)}</p>" + (f"<p>{show(why)}</p>" if why else "")
            return _page(404, "Not found", [told], visitor, form)
        return Reply(200, text.encode(), HTML)

    def _show_trace(self, visitor: Visitor, request: Request) -> Reply:
        """The report of a recording of a job that they may see."""
        number = pages_module.read_number(request.query, "n", 0, 10**9)
        trace = self._notes.find_trace(number)
        if trace is not None and self._tracer is not None:
            self._pages.find_job(visitor, trace.job_key)
            path = self._tracer.find_report(number)
            if path is not None:
                headers = {"Content-Security-Policy": _REPORT_POLICY}
                return Reply(200, path.read_bytes(), HTML, headers)
        return _page(404, "Not found", ["<p>There is no such recording.</p>"], visitor)

    def _change(self, request: Request, path: str) -> Reply:
        """What a form of ours asks for."""
        if path == "/enter":
            return self._enter(request)
        visitor = self._recognize(request)
        if visitor is None or visitor.role == INGEST:
            return _refuse()
        if _is_foreign(request):
            return say(403, "the request comes from another site")
        fields = request.read_form()
        if not self.sessions.is_signed(visitor.name, fields.get("form", "")):
            return say(403, "the form is not one of this service: open the page again")
        if path == "/leave":
            self.sessions.end(request.read_cookie())
            return go("/", "", secure=self._secure)
        key, job = self._pages.find_job(visitor, fields.get("id", ""))
        if path == "/tag":
            tag, scope = fields.get("tag", ""), fields.get("scope", PRIVATE)
            if "remove" in fields:
                self._notes.remove_tag(visitor, key, tag, scope)
            else:
                self._notes.add_tag(visitor, key, tag, scope)
        elif path == "/record" and self._tracer is not None:
            if job.row["user"] != visitor.name and visitor.role not in (SUPPORT, ADMIN):
                return say(403, "a job is recorded by its owner, by support or an admin")
            if job.row["state"] != "running":
                raise RequestError("the job does not run any more")
            hosts = [str(node["host"]) for node in job.nodes]
            self._tracer.ask(key, hosts, visitor.name, "asked for")
        else:
            return say(404, "nothing has this name")
        return go(f"/job?{urlencode({'id': key})}")

    def _enter(self, request: Request) -> Reply:
        """A token in a form of ours begins a session; one in an address asks for that form.

        A link that somebody else sends would begin their session, and what is typed then is theirs.
        """
        if request.method == "POST":
            if _is_foreign(request):
                return say(403, "the request comes from another site")
            token = request.read_form().get("token", "")
        else:
            token = request.query.get("token", "")
        visitor = find_token({"Authorization": f"Bearer {token}"}, self._rules)
        if visitor is None or visitor.role == INGEST:
            return _page(403, "Sign in", ["<p>This token is nobody's.</p>", _ENTER], _NOBODY)
        if request.method != "POST":
            form = (
                '<form class="filter" method="post" action="/enter">'
                f'<input name="token" type="hidden" value="{show(token)}">'
                f"<button>Sign in as {show(visitor.name)}</button></form>"
            )
            return _page(200, "Sign in", [form], _NOBODY)
        return self._begin(visitor)

    def _begin(self, visitor: Visitor) -> Reply:
        return go("/", self.sessions.begin(visitor), secure=self._secure)


_WRITES = ("/write", "/api/v2/write", "/api/write", "/metricstore/api/write")
_REMOTE_WRITE = "/api/v1/write"
_VERSION_2 = "io.prometheus.write.v2."
_ENTER = (
    '<form class="filter" method="post" action="/enter"><label>token'
    '<input name="token" type="password" autocomplete="current-password" required></label>'
    "<button>Sign in</button></form>"
    '<p class="note">Support has one for you, or the site signs you in by itself.</p>'
)


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """Path and query of what a request line asks for. Raises ValueError."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path.startswith("/"):
        raise ValueError("a request names a path")
    return parts.path, dict(parse_qsl(parts.query, max_num_fields=100))


def _is_foreign(request: Request) -> bool:
    """Whether a browser says that another site's page sends this."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin")
    host = request.headers.get("Host", "")
    own = origin is None or urlsplit(origin).netloc == host
    return site not in ("same-origin", "none") or not own


def _refuse() -> Reply:
    reply = say(401, "a token is needed:  Authorization: Bearer TOKEN")
    return Reply(401, reply.body, JSON, {"WWW-Authenticate": "Bearer"})


def _page(status: int, title: str, parts: list[str], visitor: Visitor, form: str = "") -> Reply:
    return Reply(status, write_page(title, parts, visitor, "-", form).encode(), HTML)


def _data(value: Any) -> Reply:
    text = json.dumps(_clean(value), ensure_ascii=False, allow_nan=False, default=str)
    return Reply(200, text.encode())


def _clean(value: Any) -> Any:
    """The same with null for what JSON has no number of."""
    if isinstance(value, dict):
        return {key: _clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _explain(error: BaseException) -> tuple[str, str | None]:
    why = getattr(error, "why", None)
    return str(error).splitlines()[0] if str(error) else "it is wrong", why
