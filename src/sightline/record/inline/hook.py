"""Waits for torch and jax to be imported, in processes that are to be recorded."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from sightline.record.inline.session import state, tell_person

# Programs that only start others: their own torch has nothing to show.
LAUNCHERS = {
    "torchrun",
    "deepspeed",
    "accelerate",
    "mpirun",
    "mpiexec",
    "horovodrun",
    "colossalai",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
}


def is_launcher(arguments: Sequence[str]) -> bool:
    """Whether a Python command line starts a launcher: as a script, or with -m."""
    words = list(arguments[1:])
    while words:
        word = words.pop(0)
        if word == "-m":
            return bool(words) and words[0] in LAUNCHERS
        if word in ("-X", "-W") and words:
            words.pop(0)
        elif not word.startswith("-"):
            return os.path.basename(word) in LAUNCHERS  # noqa: PTH119  # pathlib costs 10 ms
        elif word.startswith("-c"):
            return False
    return False


def install() -> None:
    """Watch for torch and jax, where the plan wants them; a launcher records nothing."""
    if is_launcher(sys.orig_argv):
        state.on = False
    if state.plan.get("traced"):
        _allow_tracing()
    if not state.on:
        return
    wanted = set()
    if state.plan.get("torch") or state.plan.get("oom_snapshot"):
        wanted.add("torch")
    if state.plan.get("jax"):
        wanted.add("jax")
    if missing := wanted - set(sys.modules):
        sys.meta_path.insert(0, _Watcher(missing))
    if "torch" in missing or not state.plan.get("torch"):
        return
    from sightline.record.inline.torch_profiler import at_step

    state.at_step = at_step


def _allow_tracing() -> None:
    """Let py-spy read this process where Yama allows parents only (PR_SET_PTRACER, prctl(2))."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
    except (OSError, AttributeError, ImportError):
        pass  # then py-spy says that it cannot


class _Watcher:
    """Lets the usual finders find these modules, and adds one call after the import of each."""

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self._busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            self._names.discard(name)
            if not self._names:
                sys.meta_path.remove(self)
            _after(spec.loader, name)
        return spec


def _after(loader: Any, name: str) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        try:
            if name == "jax":
                from sightline.record.inline import jax_profiler

                jax_profiler.at_import(module)
            else:
                from sightline.record.inline import oom_snapshot, torch_profiler

                torch_profiler.at_import(module)
                oom_snapshot.at_import(module)
        except Exception as error:  # the program's import has worked: so it goes on
            tell_person(f"cannot record {name} here: {error!r}")

    loader.exec_module = exec_module
