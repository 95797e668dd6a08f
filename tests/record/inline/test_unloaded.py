"""PyTorch's compiler is not loaded by a profiler that starts; everybody else finds it."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest

from sightline.record.inline.unloaded import without_inductor


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that has on demand what is looked up, as PyTorch has its compiler."""
    monkeypatch.delitem(sys.modules, "torch._inductor", raising=False)
    module = ModuleType("torch")
    module.__getattr__ = lambda name: f"loaded {name}"  # type: ignore[method-assign]
    return module


def test_it_is_hidden_in_the_block_alone(torch: ModuleType) -> None:
    for _ in range(2):
        with without_inductor(torch):
            assert not hasattr(torch, "_inductor")
            assert torch._dynamo == "loaded _dynamo"
        assert torch._inductor == "loaded _inductor"


def test_other_threads_find_it(torch: ModuleType) -> None:
    found: list[object] = []
    with without_inductor(torch):
        other = threading.Thread(target=lambda: found.append(torch._inductor))
        other.start()
        other.join()
    assert found == ["loaded _inductor"]


@pytest.mark.parametrize("why", ["it is loaded", "it captures graphs"])
def test_it_is_found_where_it_may_capture_graphs(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "it is loaded":
        monkeypatch.setitem(sys.modules, "torch._inductor", ModuleType("torch._inductor"))
    else:
        monkeypatch.setenv("TORCHINDUCTOR_CUDAGRAPHS", "1")
    with without_inductor(torch):
        assert torch._inductor == "loaded _inductor"


def test_a_pytorch_without_such_a_lookup_is_left_as_it_is() -> None:
    module = ModuleType("torch")
    with without_inductor(module):
        assert not hasattr(module, "_inductor")
    assert not hasattr(module, "__getattr__")
