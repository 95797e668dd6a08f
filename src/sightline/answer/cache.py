"""The first screen, and what else takes long to make, kept from one call to the next.

Reading a recording a second time costs nothing, as its tables are cached; asking all rules about
millions of rows again would cost seconds. The answer is taken from the cache only where the tables,
the window and the program are those that it was made with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sightline.answer.answer import Answer
from sightline.answer.summary import answer_run
from sightline.core import registry
from sightline.core.model.run import Run
from sightline.core.model.unwritten import is_unwritten
from sightline.core.stages import stage
from sightline.errors import StoreError
from sightline.opening.answers import find_answer, keep_answer
from sightline.opening.stamps import stamp_file, stamp_program

if TYPE_CHECKING:
    from sightline.diagnosis.custom.forms import OwnRule

_MANY = ("device_ops", "host_ops", "memory_events")
MIN_ROWS = 100_000  # of fewer, the answer is made about as soon as it is found


def keep_answer_of(run: Run, own: Sequence[OwnRule] = (), *, whole: bool = False) -> Answer:
    """The answer about a run; taken from the cache where no rules of one's own are asked."""
    if own:
        return answer_run(run, own, whole=whole)
    word = "-whole" if whole else ""
    return Answer.of(keep_part(run, word, lambda: answer_run(run, whole=whole).to_dict()))


def keep_part(run: Run, word: str, make: Callable[[], Any]) -> Any:
    """What `make` makes of a run, as JSON holds it; taken from the cache where the run is large.

    `word` says what is made: letters and hyphens, another for each.
    """
    rows = sum(run.rows(table) for table in _MANY)
    if rows < MIN_ROWS or registry.has_outsiders():
        return make()
    # Of a recording that was never read there is no answer, and its files need not be waited for.
    is_new = any(is_unwritten(part.store) for part in run.parts)
    text = None if is_new else find_answer(identify_run(run) + word)
    if text is None:
        text = json.dumps(make())
        try:
            with stage("write the rest of the cache"):
                name = identify_run(run) + word
        except StoreError:  # which was said when it could not be written
            return json.loads(text)
        keep_answer(name, text)
    # As it will be read the next time, so that both times say the same.
    return json.loads(text)


def identify_run(run: Run) -> str:
    """Names the tables, the window and the program: what an answer about a run depends on."""
    described = [
        (
            part.index,
            part.rank,
            part.recording_id,
            part.facts,
            [stamp_file(part.file(table)) for table in part.facts["rows"]],
        )
        for part in run.parts
    ]
    known = json.dumps([described, run.window, stamp_program()], sort_keys=True, default=str)
    return hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
