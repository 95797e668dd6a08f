"""What `sightline mcp` may read: what lies below the allowed folders, whatever leads elsewhere."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from support.mcp_client import Reply, ask
from support.places import EXAMPLES
from support.traces import kernel, launched, write

NAME = "simulated-dataloader.json.gz"


def _data(reply: Reply) -> Any:
    assert not reply.is_error, reply.text
    return json.loads(reply.text)


def test_nothing_outside_the_roots_is_opened(tmp_path: Path) -> None:
    """By path, by link, by a folder with a link in it, by a claim, or by SQL."""
    secret = tmp_path / "secret"
    secret.mkdir()
    shutil.copy(EXAMPLES / NAME, secret / "other.json.gz")
    (secret / "words.txt").write_text("the secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    shutil.copy(EXAMPLES / NAME, root / "own.json.gz")
    (root / "link.json.gz").symlink_to(secret / "other.json.gz")
    (root / "away").symlink_to(secret)
    (root / "folder" / "rank0.json.gz").symlink_to(secret / "other.json.gz")
    outside = [
        "../secret/other.json.gz",
        str(secret / "other.json.gz"),
        "link.json.gz",
        "away/other.json.gz",
        "away",
        "folder",
        "folder/../../secret/other.json.gz",
        "../secret/*",
        "~/x",
        "own.json.gz\0",
        "",
        "/proc/self/environ",
    ]
    claim = {"kernel": ".", "is": 1}
    replies = ask(
        root,
        *(("open", {"paths": [path]}) for path in outside),
        *(("verify", {"claim": {"recording": path, **claim}}) for path in outside),
        ("open", {"paths": ["own.json.gz"]}),
        ("table", {"recording": "r1", "sql": f"SELECT * FROM read_text('{secret}/words.txt')"}),
        ("table", {"recording": "r1", "sql": f"COPY (SELECT 1) TO '{secret}/new.csv'"}),
        ("table", {"recording": "r1", "sql": f"SELECT * FROM glob('{secret}/*')"}),
        ("open", {"paths": []}),
    )
    opened = replies[2 * len(outside)]
    assert not opened.is_error, opened.text
    refused = [*replies[: 2 * len(outside)], *replies[-4:-1]]
    assert all(reply.is_error for reply in refused), [r.text for r in refused if not r.is_error]
    assert not any("the secret" in reply.text for reply in replies)
    assert not (secret / "new.csv").exists()
    # What is elsewhere is refused in the words for what is nowhere.
    missing = ask(root, ("open", {"paths": ["../secret/none.json"]}))[0].text
    assert missing == replies[0].text.replace("other.json.gz", "none.json")
    listed = {row["path"] for row in _data(replies[-1])["rows"]}
    assert listed == {"own.json.gz", "folder/"}
    for folder in ("../", "../secret/", "away/", "/etc/", "folder/../../", "\0/"):
        assert ask(root, ("open", {"paths": [folder]}))[0].is_error


def test_folders_are_listed_page_by_page(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for number in range(300):
        (tmp_path / "runs" / f"a-long-name-of-a-recording-{number:03}.json").touch()
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = _data(ask(tmp_path, ("open", {"paths": ["runs/"], "offset": offset}))[0])
        seen += [row["path"] for row in page["rows"]]
        offset = page.get("next_offset")
    assert len(seen) == 300
    assert seen[0] == "runs/a-long-name-of-a-recording-000.json"


def test_nobody_learns_where_the_root_lies(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path, launched(0, kernel(name, 20, 5_000))).rename(tmp_path / name)
    (tmp_path / "c.json").write_text("no recording")
    replies = ask(
        tmp_path,
        ("open", {"paths": ["a.json", "b.json"]}),
        ("open", {"paths": ["c.json"]}),
        ("open", {"paths": ["a.json"]}),
        ("summary", {"recording": "r1"}),
        ("table", {"recording": "r1", "sql": "SELECT * FROM recordings"}),
        ("table", {"recording": "r1", "sql": "SELECT * FROM duckdb_views()"}),
    )
    assert "a.json" in replies[2].text
    private = (str(tmp_path), f"{os.environ.get('HOME') or 'nowhere'}/")
    assert not [r.text for r in replies if any(word in r.text for word in private)]
