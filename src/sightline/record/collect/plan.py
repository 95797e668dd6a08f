"""From what a person asks and what the machine has to what is recorded, and the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sightline.errors import RequestError
from sightline.record.collect.backend import Backend, list_backends
from sightline.record.collect.frameworks import make_schedule
from sightline.record.collect.questions import QUESTIONS
from sightline.record.collect.situation import Situation

_NOT_NEEDED = "not needed for this question"
_FLAGS = {"after_s": "--after", "sections": "--section"}  # options of other names than their flags


@dataclass(frozen=True)
class Choice:
    """One backend, taken or not, and why."""

    backend: str
    taken: bool
    why: str

    @property
    def is_of_interest(self) -> bool:
        """Whether it was considered at all."""
        return self.why != _NOT_NEEDED


@dataclass
class Plan:
    """What is to be recorded, and how."""

    command: list[str]
    question: str = "timeline"
    choices: list[Choice] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def backends(self) -> list[str]:
        """Those that are taken."""
        return [c.backend for c in self.choices if c.taken]

    @property
    def torch(self) -> dict[str, Any] | None:
        """What PyTorch's profiler is told; None where it does not record."""
        return make_schedule(self.question, self.options) if "torch" in self.backends else None

    @property
    def jax(self) -> dict[str, Any] | None:
        """What JAX's profiler is told; None where it does not record."""
        return make_schedule(self.question, self.options) if "jax" in self.backends else None

    @property
    def cpu_tool(self) -> str | None:
        """What samples CPU stacks (backends.cpu.TOOLS); None where nothing does."""
        return self.options.get("cpu_tool")

    def leave_out(self, backend: str, why: str) -> None:
        """Take a backend out again."""
        self.choices = [
            Choice(backend, False, why) if c.backend == backend else c for c in self.choices
        ]


def make_plan(
    command: Sequence[str],
    facts: dict[str, Any],
    *,
    question: str | None = None,
    backends: Sequence[str] = (),
    options: dict[str, Any] | None = None,
) -> Plan:
    """The plan; `facts` are machine.examine_machine's. Raises RequestError where there is none."""
    known = list_backends()
    chosen = dict(options or {})
    called = [b for b in known if not backends and any(chosen.get(o) for o in b.asked_by)]
    carried = [name for backend in called for name in backend.carries]
    question = question or (carried[0] if carried else None)
    _check_names("question", [question] if question else [], QUESTIONS)
    _check_names("backend", backends, [backend.name for backend in known])
    plan = Plan(list(command), question or "timeline", options=chosen)
    situation = Situation(plan.command, plan.question, facts, dict(plan.options), bool(backends))
    for backend in known:
        if backend in called:
            _choose(plan, backend, replace(situation, is_asked=True), [backend.name])
        else:
            _choose(plan, backend, situation, backends)
    _let_one_trace(plan, known)
    _refuse_unanswered(plan, known, backends)
    asked = {*backends, *(backend.name for backend in called)}
    refused = [c for c in plan.choices if c.backend in asked and not c.taken]
    if refused:
        raise RequestError(
            f"{refused[0].backend} cannot record here",
            why=refused[0].why,
            hint=_hint_at_remedy(refused[0].backend),
        )
    return plan


def list_unread(plan: Plan, options: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Choices that nothing in the plan reads, each with the backends that would: ignored else."""
    reads = {backend.name: backend.reads for backend in list_backends()}
    unread = []
    for name, value in options.items():
        readers = [backend for backend, own in reads.items() if name in own]
        if value and readers and not set(readers) & set(plan.backends):
            unread.append((_FLAGS.get(name, f"--{name.replace('_', '-')}"), readers))
    return unread


def _check_names(noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise RequestError(f"there is no {noun} '{name}'", why=f"there are {', '.join(known)}")


def _choose(plan: Plan, backend: Backend, situation: Situation, asked: Sequence[str]) -> None:
    """Judge a backend that a person asked for, or that is picked for the question."""
    answers = backend.answers.get(situation.question)
    is_picked = backend.name in asked if asked else answers is not None and answers(situation)
    if not is_picked and not (backend.option and situation.options.get(backend.option)):
        plan.choices.append(Choice(backend.name, False, _NOT_NEEDED))
        return
    verdict = backend.judge(situation)
    plan.choices.append(Choice(backend.name, verdict.possible, verdict.why))
    plan.options |= verdict.options


def _let_one_trace(plan: Plan, known: Sequence[Backend]) -> None:
    """CUPTI has one subscriber before 13.3, and some tools let no other in later.

    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (CUPTI documentation, result codes).
    """
    taken = [backend for backend in known if backend.name in plan.backends]
    tools = [backend.name for backend in taken if backend.traces == "around"]
    within = [backend.name for backend in taken if tools and backend.traces == "within"]
    for left in [*tools[1:], *within]:
        plan.leave_out(left, f"{tools[0]} records, and only one tool can trace a GPU at a time")


def _refuse_unanswered(plan: Plan, known: Sequence[Backend], asked: Sequence[str]) -> None:
    """Raise RequestError where nothing that carries the question can record."""
    question = QUESTIONS[plan.question]
    carriers = [backend.name for backend in known if plan.question in backend.carries]
    if question.failure is None or set(carriers) & set(plan.backends):
        return
    if asked and not question.even_if_asked:
        return
    whys = [c.why for c in plan.choices if c.backend in carriers and c.is_of_interest]
    raise RequestError(
        question.failure,
        why="; ".join(whys) or f"--backend {','.join(asked)} leaves out {', '.join(carriers)}",
        hint=_hint_at_remedy(plan.question),
    )


def _hint_at_remedy(name: str) -> str:
    return f"What is missing, and the remedy:  sightline doctor --for {name}"
