"""Ranges of KV connectors: an engine calls them in each step, whether anything moves or not."""

from __future__ import annotations

from pathlib import Path

from support.traces import Event, host, op, opened

CONNECTOR = "vllm/distributed/kv_transfer/kv_connector/v1/example_connector.py"


def call_hook(name: str, at: int, dur: int, *, moves: bool) -> list[Event]:
    """A connector's function; what moves keys and values runs an operator."""
    hook = host("python_function", f"{CONNECTOR}(110): {name}", at, dur)
    return [hook, op("aten::index_put_", at + 1, dur - 2)] if moves else [hook]


def test_a_call_that_moves_nothing_is_no_transfer(tmp_path: Path) -> None:
    events = []
    for step in range(3):
        at = 1_000 * step
        events += call_hook("start_load_kv", at, 100, moves=step == 1)
        events += call_hook("wait_for_layer_load", at + 200, 10, moves=False)
        events += call_hook("save_kv_layer", at + 300, 50, moves=step == 2)
    rows = opened(tmp_path, events).ask("kv_transfers")
    told = rows.select("name", "direction", "duration_ns").rows()
    assert told == [
        (f"{CONNECTOR}(110): start_load_kv", "in", 100_000),
        (f"{CONNECTOR}(110): save_kv_layer", "out", 50_000),
    ]


def test_of_a_connector_that_shows_no_operator_all_calls_are_kept(tmp_path: Path) -> None:
    """Its transfers run beside the host: what a call moved is not to be seen."""
    events = [
        event
        for step in range(3)
        for event in call_hook("start_load_kv", 1_000 * step, 100, moves=False)
    ]
    assert opened(tmp_path, events).ask("kv_transfers").height == 3
