"""A trial of an exercise: both sides recorded in turn, as often as asked, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.lab.exercises import SIDES, Exercise, Measured
from sightline.lab.gains import Prediction, measure_realised, measure_step, predict_gain
from sightline.lab.record import record_side
from sightline.session import open_session


@dataclass(frozen=True)
class Trial:
    """One repetition: what the baseline's report said, and a step of either side, ns."""

    prediction: Prediction
    improved_ns: float

    @property
    def realised_pct(self) -> float:
        """By how much the fix made a step shorter."""
        return measure_realised(self.prediction.step_ns, self.improved_ns)


def try_recordings(exercise: Exercise, paths: Sequence[Path]) -> Trial:
    """What recordings of both sides tell."""
    baseline, improved = (open_session([str(path)]) for path in paths)
    return Trial(predict_gain(baseline, exercise.steps), measure_step(improved, exercise.steps))


def try_kept(exercise: Exercise) -> Trial | None:
    """What the kept recordings tell; None where they are not kept."""
    paths = [path for side in SIDES if (path := exercise.find_recording(side)) is not None]
    return try_recordings(exercise, paths) if len(paths) == len(SIDES) else None


def run_trials(
    exercise: Exercise, folder: Path, times: int, say: Callable[[str], None]
) -> Iterator[Trial]:
    """Record both sides in turn: what the machine does otherwise meets both alike."""
    for number in range(1, times + 1):
        place = folder / str(number)
        place.mkdir(parents=True)
        paths = []
        for side in SIDES:
            say(f"{exercise.name}: {side}, {number} of {times}")
            paths.append(record_side(exercise, side, place))
        yield try_recordings(exercise, paths)


def run_jobs(exercise: Exercise, folder: Path, say: Callable[[str], None]) -> dict[str, list[Path]]:
    """Each side recorded on each number of ranks: the recordings by side, fewest ranks first."""
    found: dict[str, list[Path]] = {side: [] for side in SIDES}
    folder.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        for ranks in exercise.jobs:
            say(f"{exercise.name}: {side} on {ranks}")
            found[side].append(record_side(exercise, side, folder, ranks))
    return found


def sum_up(exercise: Exercise, trials: Sequence[Trial], where: str) -> Measured:
    """The repetitions as they are kept in expected.toml."""
    return Measured(
        where,
        tuple(t.prediction.gain_pct or 0.0 for t in trials),
        tuple(t.realised_pct for t in trials),
        sum(is_first(exercise, t) for t in trials),
    )


def is_first(exercise: Exercise, trial: Trial) -> bool:
    """Whether the planted cause is the first finding."""
    found = trial.prediction.finding
    return found is not None and found.rule == exercise.finding
