"""The cluster's pages in a browser: what a person does, in both themes and on a phone."""

from __future__ import annotations

import time

import pytest

from sightline.cluster.config import Config
from sightline.cluster.demo import CLUSTER, LIMITS, Now, list_month
from sightline.doors.http.running import ClusterService
from support.chromium import launch_chromium
from support.cluster_service import TOKENS, Own, make_rules
from support.places import ROOT

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.pages]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Simulated jobs, some of which run."""
    config = Config(CLUSTER, tmp_path_factory.mktemp("site") / "s", port=0, rules=make_rules())
    service = ClusterService(
        config, print, lambda recording, target: None, limits=lambda row: LIMITS
    )
    service.store.add_jobs(list_month(80))
    Now(service.store, 6)
    service.running.refresh()
    own = Own(service, [])
    own.connect().close()
    yield service.server.url
    service.server.shutdown()
    service.close()


@pytest.fixture
def opened(site):
    contexts = []

    def open_page(path: str = "/", **options):
        context = launch_chromium().new_context(
            **{"viewport": {"width": 1280, "height": 900}, "bypass_csp": True, **options}
        )
        contexts.append(context)
        page = context.new_page()
        errors: list[str] = []
        page.on("console", lambda m: m.type == "error" and errors.append(m.text))
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: r.url.startswith((site, "data:")) or errors.append(r.url))
        page.goto(f"{site}/enter?token={TOKENS['admin']}")
        page.click("text=Sign in as")
        page.goto(site + path)
        return page, errors

    yield open_page
    for context in contexts:
        context.close()


def test_from_the_list_to_a_job_that_wastes(opened):
    page, errors = opened()
    page.select_option("select[name=rule]", "job-idle-gpus")
    page.click("text=Show")
    rows = page.locator("tbody tr")
    assert rows.count() > 0
    assert set(rows.locator(".problem").all_inner_texts()) == {"GPUs of a job did nothing"}
    number = rows.first.locator("th").inner_text()
    rows.first.locator("th a").click()
    assert page.inner_text("h1") == f"Job {number}"
    assert "GPUs of a job did nothing" in page.inner_text(".card.first")
    assert page.locator("svg.radar").count() == 1
    assert "GPU true use" in page.locator("svg.radar").get_attribute("aria-label")
    assert page.locator("figure:has-text('Roofline') circle").count() > 10
    assert page.locator("figure:has-text('acc_utilization') path.series").count() >= 4
    assert errors == []


def test_a_list_is_sorted_by_its_heads(opened):
    page, errors = opened()
    page.click("thead a:has-text('length')")
    lengths = page.locator("tbody td:nth-child(5)").all_inner_texts()
    assert lengths == sorted(lengths, reverse=True)
    page.click("thead a:has-text('length')")
    lengths = page.locator("tbody td:nth-child(5)").all_inner_texts()
    assert lengths == sorted(lengths)
    assert errors == []


def test_a_tag_is_added_found_and_removed(opened):
    page, errors = opened()
    page.locator("tbody th a").first.click()
    name = f"tag {time.time_ns() % 10**6}"
    page.fill("input[name=tag]", name)
    page.click("button:has-text('Add')")
    page.click(f".tag a:has-text('{name}')")
    assert page.locator("tbody tr").count() == 1
    page.locator("tbody th a").first.click()
    page.fill("input[name=tag]", name)
    page.click("button:has-text('Remove')")
    assert page.locator(".tag").count() == 0
    assert errors == []


def test_leaving_ends_it(opened, site):
    page, _ = opened()
    page.click("text=Sign out")
    assert page.inner_text("h1") == "Sign in"
    page.fill("input[name=token]", TOKENS["user"])
    page.click("button:has-text('Sign in')")
    assert "ada" in page.inner_text(".who")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_serious_and_nothing_beside_the_screen(opened, site, theme):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in web/")
    page, errors = opened(color_scheme=theme)
    jobs = page.eval_on_selector_all("tbody th a", "els => els.map(e => e.getAttribute('href'))")
    first, second = (job.partition("id=")[2] for job in jobs[2:4])
    places = ["/", jobs[2], "/waste", "/owners", "/nodes", f"/compare?a={first}&b={second}"]
    for place in places:
        page.goto(site + place)
        page.evaluate(AXE.read_text())
        found = page.evaluate(
            "async () => (await axe.run()).violations.map(v => [v.id, v.impact, v.nodes[0].html])"
        )
        assert [f for f in found if f[1] in ("serious", "critical")] == [], place
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
        page.set_viewport_size({"width": 1280, "height": 900})
    assert errors == []
