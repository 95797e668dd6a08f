"""Advice in the words of the world at hand: each text says of whom it may be told.

A text without a key is neutral: it is told of every world, the unknown one among them, and has no
word of any framework. The others stand under the world that they require; the narrowest that there
is one for is told. `tests/diagnosis/test_worlds.py` reads every rule in every world.
"""

from __future__ import annotations

from sightline.core.model.run import Run
from sightline.timeline.world import INFERENCE, TRAINING, World, read_world

# For each framework the keys of texts that fit it, the narrowest first. Under `inference` and
# `training` stand texts for PyTorch that does so; under `serving` those for inference servers,
# whose users set options and change no model; under `compiled` those for programs of C, C++ and
# Fortran; under `scripted` those for Python that calls the GPU itself.
_FITS = {
    "sglang": ("sglang", "serving"),
    "vllm": ("vllm", "serving"),
    "pytorch": ("pytorch",),
    "jax": ("jax",),
    "tensorrt": ("tensorrt", "native", "compiled"),
    "julia": ("julia",),
    "numba": ("numba", "scripted"),
    "cupy": ("cupy", "scripted"),
    "kokkos": ("kokkos", "compiled"),
    "openmp": ("openmp", "compiled"),
    "openacc": ("openacc", "compiled"),
    "native": ("native", "compiled"),
    "unknown": (),
}
KEYS = frozenset(key for keys in _FITS.values() for key in keys) | {
    "python",  # what is true of all Python
    INFERENCE,
    TRAINING,
}
# How to see where a process is, without stopping it for good.
PYTHON_STACKS = "py-spy dump --pid PID"
NATIVE_STACKS = "gdb -p PID -batch -ex 'thread apply all bt'"


def list_keys(world: World) -> tuple[str, ...]:
    """The keys of texts that may be told of this world, the narrowest first."""
    keys = _FITS[world.framework]
    if world.framework == "pytorch" and world.purpose in (INFERENCE, TRAINING):
        keys = (world.purpose, *keys)
    if world.language != "python":
        return keys
    return (*(("scripted", *keys) if "native" in keys else keys), "python")


def choose_fix(run: Run, neutral: str, **others: str) -> str:
    """The advice for the run's world, by keys of `KEYS`; the neutral one where none fits.

    Raises KeyError for a key that is not a world's.
    """
    if unknown := others.keys() - KEYS:
        raise KeyError(f"no world is called {sorted(unknown)}")
    return next((others[k] for k in list_keys(read_world(run)) if k in others), neutral)
