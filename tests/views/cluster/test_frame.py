"""What stands around each page of the service."""

from __future__ import annotations

from sightline.cluster.access import Visitor
from sightline.views.cluster.frame import write_page


def test_nobody_has_no_role_behind_a_dot() -> None:
    assert "<span>not signed in</span>" in write_page(
        "Sign in", [], Visitor("not signed in", ""), ""
    )
    assert "<span>ada · user</span>" in write_page("Jobs", [], Visitor("ada", "user"), "")
