"""What a planted cause truly costs: the same program, with the same luck, without it."""

from __future__ import annotations

from dataclasses import dataclass, field

from worlds.causes import CAUSES
from worlds.programs import PROGRAMS
from worlds.recorded import RunRecord
from worlds.world import World

LEAST_SHARE = 0.05  # of the window that a cause must cost, to be worth a first place
LARGEST_DOUBLINGS = 4


@dataclass
class Case:
    """A program with causes, what happened, and what each cause costs (ns)."""

    program: str
    causes: tuple[str, ...]
    seed: int
    vendor: str
    run: RunRecord
    severities: dict[str, float] = field(default_factory=dict)
    window_ns: int = 0
    gains: dict[str, int] = field(default_factory=dict)
    together_ns: int = 0  # the gain of removing all
    healthy_ns: int = 0

    def leading(self) -> str:
        """The cause that costs most; "" in a healthy program."""
        return max(self.gains, key=lambda cause: self.gains[cause], default="")

    def is_valid(self) -> bool:
        """Whether each cause costs enough, and what is lost else is less."""
        rest = self.window_ns - self.together_ns
        healthy_loss = rest * (1 - healthy_share(self))
        return all(
            gain >= LEAST_SHARE * self.window_ns and gain > healthy_loss
            for gain in self.gains.values()
        )


def healthy_share(case: Case) -> float:
    """How busy the program is without its causes; cached by the caller's use of one seed."""
    return play(case.program, case.seed, case.vendor, {}).busy_share()


def play(program: str, seed: int, vendor: str, planted: dict[str, float]) -> RunRecord:
    """Play a program with causes."""
    world = World(seed, dict(planted), vendor)
    PROGRAMS[program](world)
    return world.play()


def remove(planted: dict[str, float], cause: str) -> dict[str, float]:
    """The same causes without one; what is harmless by itself stays."""
    rest = {name: severity for name, severity in planted.items() if name != cause}
    return rest | {name: factor * planted[cause] for name, factor in CAUSES[cause].instead.items()}


def make_case(program: str, causes: tuple[str, ...], seed: int, vendor: str = "nvidia") -> Case:
    """Plant causes, as severe as they must be to matter, and work out what each costs."""
    planted = {cause: CAUSES[cause].severity for cause in causes}
    for _ in range(LARGEST_DOUBLINGS):
        case = judge(program, planted, seed, vendor)
        weak = [c for c in causes if case.gains[c] < 1.4 * LEAST_SHARE * case.window_ns]
        if not weak:
            break
        for cause in weak:
            planted[cause] *= 1.7
    return case


def judge(program: str, planted: dict[str, float], seed: int, vendor: str) -> Case:
    """What happened, and what would have happened without each cause and without all."""
    run = play(program, seed, vendor, planted)
    case = Case(program, tuple(planted), seed, vendor, run, dict(planted), run.window_ns())
    for cause in planted:
        without = play(program, seed, vendor, remove(planted, cause))
        case.gains[cause] = case.window_ns - without.window_ns()
    rest = dict(planted)
    for cause in planted:
        rest = remove(rest, cause)
    case.together_ns = case.window_ns - play(program, seed, vendor, rest).window_ns()
    return case
