"""What a person installs: sdist and wheel hold the HTML pages, and run where nothing else is."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from support.pages import ROOT

EXAMPLE = ROOT / "examples" / "simulated-dataloader.json.gz"
PAGES = ("assets/report.html", "assets/flame.html", "assets/SOURCES")
# Neither Node nor a compiler: what a container without development packages has.
BARE = {"PATH": "/nowhere", "HOME": "/nowhere", "LANG": "C.UTF-8"}


def run_hook(folder: Path, hook: str, target: Path, **environment: str) -> str:
    """What a hook of the build backend returns, called in the source folder as pip would."""
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_backend; "
        f"print(build_backend.{hook}(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def is_fresh(folder: Path) -> bool:
    """Whether a source folder's pages were built from what lies there."""
    code = "import sys; sys.path[:0] = ['scripts']; import build_web; print(build_web.is_fresh())"
    run = [sys.executable, "-c", code]
    return subprocess.run(run, cwd=folder, capture_output=True, check=True).stdout == b"True\n"


# `sightline` on PyPI is another project.
OTHERS_PACKAGE = re.compile(r"""pip3? install [^`\n#]*?(?<![\w.-])sightline(?![\w-])""")


def test_no_text_installs_the_other_sightline_of_pypi():
    texts = [ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md")]
    texts += [*ROOT.glob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").iterdir()]
    texts += [*(ROOT / "lab").rglob("*.md"), *(ROOT / "changes").iterdir()]
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts
        if path.is_file()
        for match in OTHERS_PACKAGE.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()
    assert '\nname = "sightline-gpu"\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install sightline", True),
        ("pip install 'sightline[png]'", True),
        ('pip install --upgrade "sightline[hpc]"', True),
        ("pip install 'sightline-gpu[png]'", False),
        ("pip install .  # in sightline's checkout", False),
        ("pip install resvg-py", False),
    ],
)
def test_the_other_sightline_is_recognized(text: str, is_found: bool):
    assert bool(OTHERS_PACKAGE.search(text)) is is_found


def test_each_dependency_has_a_row_that_says_why():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^dependencies = \[\n(.*?)^\]$", project, re.MULTILINE | re.DOTALL)
    required = set(re.findall(r'^  "([\w.-]+)', block, re.MULTILINE))
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    rows = page.split("## To run", 1)[1].split("\nExtras", 1)[0]
    explained = set(re.findall(r"^\| ([\w.-]+) \|", rows, re.MULTILINE)) - {"package"}
    assert explained == required


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core")
    if not (ROOT / "src/sightline/assets/SOURCES").is_file():
        pytest.skip("the pages are not built: python scripts/build_web.py")
    folder = tmp_path_factory.mktemp("sdist")
    return folder / run_hook(ROOT, "build_sdist", folder)


@pytest.mark.xdist_group("sdist")
def test_an_sdist_holds_the_pages_that_its_sources_make(sdist):
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        top = names[0].split("/")[0]
        assert all(f"{top}/src/sightline/{page}" in names for page in PAGES)
        assert not [n for n in names if "node_modules" in n or "/web/dist" in n or "/.venv" in n]
        archive.extractall(sdist.parent, filter="data")
    # The digest is of what lies in the sdist, so its wheel needs no Node.
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_web; print(build_web.is_fresh())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=sdist.parent / top, capture_output=True, text=True
    )
    assert said.stdout.strip() == "True", said.stderr


@pytest.mark.campaign
@pytest.mark.xdist_group("sdist")
def test_the_same_sources_make_the_same_sdist(sdist, tmp_path):
    again = tmp_path / run_hook(ROOT, "build_sdist", tmp_path)
    one, two = (hashlib.sha256(p.read_bytes()).hexdigest() for p in (sdist, again))
    assert one == two


@pytest.mark.xdist_group("sdist")
def test_changed_sources_are_not_fresh(sdist, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (top,) = tmp_path.iterdir()
    page = top / "web/src/report/page.html"
    page.write_text(page.read_text() + "\n")
    code = (
        "import sys; sys.path.insert(0, 'scripts'); import build_web; print(build_web.is_fresh())"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=top, capture_output=True, text=True)
    assert said.stdout.strip() == "False", said.stderr


def test_without_pages_the_version_says_so_and_the_error_what_to_do(tmp_path):
    source = ROOT / "src/sightline"
    ignored = shutil.ignore_patterns("__pycache__", "assets", "_native*.so")
    shutil.copytree(source, tmp_path / "sightline", ignore=ignored)
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if isinstance(f, type)]; "
        f"sys.path.insert(0, {str(tmp_path)!r}); "
        "from sightline.doors.cli.main import main; sys.exit(main())"
    )

    def answer(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
        )

    version = answer("--version").stdout
    assert "compiled reader: no" in version
    assert "HTML pages: no" in version
    failed = answer("report", str(EXAMPLE), "-o", str(tmp_path / "report.html"))
    assert failed.returncode == 2
    assert "this installation has no compiled reader" in failed.stderr
    assert "pip install ." in failed.stderr
    assert "bug" not in failed.stderr


@pytest.mark.xdist_group("sdist")
@pytest.mark.campaign
def test_a_wheel_runs_in_an_empty_environment(sdist, tmp_path):
    """Compiles the reader once more and installs all dependencies anew: several minutes."""
    wheels = tmp_path / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels)]
    subprocess.run([*build, str(sdist)], check=True)
    (wheel,) = wheels.glob("sightline_gpu-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert all(f"sightline/{page}" in names for page in PAGES)
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)

    def answer(*words: str) -> str:
        run = [python, "-m", "sightline", *words]
        done = subprocess.run(
            run, cwd=tmp_path, env=BARE | {"SIGHTLINE_CACHE": str(tmp_path / "cache")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    version = answer("--version")
    assert "compiled reader: yes" in version
    assert "HTML pages: yes" in version
    assert "dataloader-starved" in answer(str(EXAMPLE))
    answer("report", str(EXAMPLE), "-o", "page.html")
    assert (tmp_path / "page.html").stat().st_size > 100_000
    answer("flame", str(EXAMPLE), "-o", "flame.html")
    assert (tmp_path / "flame.html").stat().st_size > 50_000
