"""How many tokens texts are to large language models, by vocabularies that anybody can look up.

    python scripts/count_tokens.py FILE ...
    sightline report trace.json --for-llm | python scripts/count_tokens.py -

The vocabularies are OpenAI's `o200k_base` and `cl100k_base`, as npm's js-tiktoken carries them
(npm_packages.py). Other makers' models count otherwise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from npm_packages import NoPackageError, fetch_package

VOCABULARIES = ("o200k_base", "cl100k_base")
# Texts as JSON in, a list of counts for each vocabulary out. A text may look like a special token.
_COUNT = """
const { Tiktoken } = require("js-tiktoken/lite");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const counts = VOCABULARIES.map((name) => {
  const coder = new Tiktoken(require(`js-tiktoken/ranks/${name}`));
  return texts.map((text) => coder.encode(text, [], []).length);
});
console.log(JSON.stringify(counts));
"""


def count_tokens(texts: Sequence[str]) -> list[int]:
    """The tokens of each text: the larger of both counts. Raises NoPackageError."""
    node, folder = fetch_package("js-tiktoken")
    code = f"const VOCABULARIES = {json.dumps(VOCABULARIES)};{_COUNT}"
    done = subprocess.run(
        [node, "-e", code],
        cwd=folder.parent,
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NoPackageError(f"js-tiktoken: {done.stderr.strip()[-300:]}")
    return [max(both) for both in zip(*json.loads(done.stdout), strict=True)]


def main(names: Sequence[str]) -> int:
    """Print each file's count."""
    texts = [sys.stdin.read() if n == "-" else Path(n).read_text("utf-8") for n in names]
    try:
        counts = count_tokens(texts)
    except NoPackageError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    for name, text, count in zip(names, texts, counts, strict=True):
        print(f"{count:>8,} tokens  {len(text) / max(count, 1):.2f} letters each  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
