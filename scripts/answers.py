"""What sightline answers on many recordings, as files that `diff -r` can compare.

    scripts/answers.py OUT RECORDING-OR-FOLDER...

For every file, and every folder as one run: the bytes of `report --json` and `findings --json`,
and a digest of every analysis' answer. Run it with the Python of two versions (each with its own
SIGHTLINE_CACHE), and compare:

    diff -r before after && echo "same answers"

A change that is meant to change no answer is proved by it; any other shows what it changes.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
from functools import partial
from pathlib import Path


def main() -> int:
    out = Path(sys.argv[1])
    files = [f for given in sys.argv[2:] for f in files_in(Path(given))]
    out.mkdir(parents=True, exist_ok=True)
    # Polars' threads do not survive a fork, and what one recording leaves in memory is not kept.
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=50) as pool:
        for number, done in enumerate(pool.imap_unordered(partial(write_answers, out), files), 1):
            print(f"{number}/{len(files)} {done}", flush=True)
    return 0


def files_in(given: Path) -> list[Path]:
    """The files of a folder, each a recording of its own; its folders, as ranks; or the file."""
    if given.is_file():
        return [given]
    files = sorted(p for p in given.rglob("*") if p.is_file())
    return [*files, *sorted({p.parent for p in files})]


def write_answers(out: Path, recording: Path) -> str:
    """All answers on one recording into one file of `out`."""
    name = str(recording).strip("./").replace("/", "__")
    commands = [["report", "--json"], ["findings", "--json"]]
    answers = {" ".join(c): run_command([*c, str(recording)]) for c in commands}
    if answers["report --json"]["code"] != 2:
        answers["stats"] = ask_all(recording)
    (out / f"{name}.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False))
    return str(recording)


def run_command(arguments: list[str]) -> dict[str, object]:
    """A command's exit code, and what it wrote."""
    from sightline.doors.cli.main import main as sightline

    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        kept = os.dup(1), os.dup(2)
        os.dup2(stdout.fileno(), 1)
        os.dup2(stderr.fileno(), 2)
        try:
            code = sightline(arguments)
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace").splitlines())
    return {"code": code, "stdout": texts[0], "stderr": texts[1]}


def ask_all(recording: Path) -> dict[str, str]:
    """A digest of each analysis' answer, or its error."""
    import sightline
    from sightline.core import registry

    run = sightline.open(str(recording))
    found = {}
    for name in registry.list_names("analyses"):
        try:
            frame = run.ask(name)
        except sightline.SightlineError as error:
            found[name] = str(error)
            continue
        text = frame.write_csv() if not any(is_nested(t) for t in frame.dtypes) else None
        if text is None:
            text = frame.write_json()
        digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        found[name] = f"{frame.height} rows {digest}"
    return found


def is_nested(dtype: object) -> bool:
    return str(dtype).startswith(("List", "Struct", "Array"))


if __name__ == "__main__":
    sys.exit(main())
