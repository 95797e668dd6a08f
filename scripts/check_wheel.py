"""Is all inside that a wheel must hold? Run by the Python into which it was installed.

    python scripts/check_wheel.py

Everywhere the compiled reader, the HTML pages and the exercises; on Linux the GPU recorder, the
eBPF programs, the ranges in C and the man pages too. Reports on a recording, as a reader would.
Ends with 1 and says what is missing.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "simulated-dataloader.json.gz"
EVERYWHERE = ("compiled reader", "HTML pages")
MAN_PAGE, MARKS = "share/man/man1/sightline.1", "sightline._marks"
ON_LINUX = ("GPU recorder (CUPTI)", "probes by eBPF")


def list_missing(version: str, platform: str, parts: set[str]) -> list[str]:
    """What is not there: by the words of `sightline --version`, and the other parts that are."""
    wanted = EVERYWHERE + (ON_LINUX if platform == "linux" else ())
    missing = [part for part in wanted if f"{part}: yes" not in version]
    if platform == "linux":
        missing += [part for part in (MAN_PAGE, MARKS) if part not in parts]
    return missing


def ask(*words: str) -> str:
    """What `sightline` prints. Raises CalledProcessError where it ends with an error."""
    run = [sys.executable, "-m", "sightline", *words]
    return subprocess.run(run, check=True, capture_output=True, text=True, encoding="utf-8").stdout


def main() -> int:
    parts = {MAN_PAGE} if (Path(sys.prefix) / MAN_PAGE).is_file() else set()
    parts |= {MARKS} if importlib.util.find_spec(MARKS) is not None else set()
    missing = list_missing(ask("--version"), sys.platform, parts)
    if "dataloader-starved" not in ask("findings", str(EXAMPLE)):
        missing.append("the finding of examples/simulated-dataloader.json.gz")
    if "data-loading" not in ask("lab"):
        missing.append("the exercises of the lab")
    for part in missing:
        print(f"This wheel lacks {part}.", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
