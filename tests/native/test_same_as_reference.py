"""The compiled reader against the plain Python one: every table, to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.core.model import parts
from sightline.formats.pytorch.kineto import reading
from support import traces as t
from support.campaigns import examples, sample
from support.corpus import list_recordings, name_recording
from support.same import differences
from support.simulated import DIALECT_NAMES, files_of
from synth.scenarios import SCENARIOS

PIECES = (64, 700, 9_000, 1 << 20)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path", sample(list_recordings("kineto/**/*.json*"), 6), ids=name_recording
)
def test_corpus(path: Path) -> None:
    assert differences(path) == []


@pytest.mark.corpus
@pytest.mark.parametrize("size", sample([5_000, 60_000], 2))
def test_corpus_in_small_pieces_and_parts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", size)
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", size // 50)
    for path in sample(list_recordings("kineto/**/*.json*")[::5], 4):
        assert differences(path) == []


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
def test_simulated(dialect: str) -> None:
    for scenario in sorted(SCENARIOS)[::3]:
        for path in files_of(scenario, 0, dialect)[:1]:
            assert differences(path) == []


# -- any values ---------------------------------------------------------------------------------

# What a person may find where a number or a text should be, as JSON text.
odd = st.sampled_from([
    "0", "-0", "7", "-3", "1.5", "-0.0005", "0.0005", "0.0015", "1e3", "1.7E+15", "1e15", "1e-9",
    "1719853884000001.2345", "9223372036854775807", "9223372036854775.807", "-9223372036854775808",
    "9" * 25, "9" * 400, "1e400", "0e99999", "NaN", "Infinity", "-Infinity", "null", "true",
    "false",
    "[]", "{}", "[1, 2, 3]", "[1,2]", "[[1, 2], [], [\"a\"]]", '{"a": 1, "a": 2}',
    '{"a": {"b": NaN}}',
    '""', '"x"', '"12"', '"-12"', '" 12"', '"1_000"', '"12."', '".5"', '"+5"', '"1e3"', '"0012"',
    '"0.0005"', '"stream 7"', '"stream"', '"a b 9"', '"\u0661\u0662"', '"K\u00e9rnel"', '"KERNEL"',
    '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00x"', '"\\u0000"', '"tab\there"', '"new\\nline"',
    '"\x01"',
    '"\u2028"', '"\U0001f600"', '"[0, 1, 2]"', '"[0, 8, ..., 56]"', '"[1, \\"2\\"]"',
    '"HostToDevice"',
    '["DeviceToHost"]', '"nan"', '"inf"', '"infinity"', '"bfloat16"', '"_ALL_reduce"', '"9" ',
])  # fmt: skip
plain = st.sampled_from(["0", "1", "2", "7", "10", "10.5", '"8"', "1001", "12.125"])
text = st.text(max_size=6).map(json.dumps) | st.text(max_size=6).map(
    lambda s: json.dumps(s.encode("utf-8", "replace").decode(), ensure_ascii=False)
)
value = st.one_of(plain, plain, plain, odd, text)
phase = (
    st.sampled_from(['"X"'] * 12 + ['"s"', '"f"', '"t"', '"i"', '"M"', '"C"', '"B"', '"E"'] * 2)
    | odd
)
category = st.sampled_from([
    '"kernel"', '"gpu_memcpy"', '"gpu_memset"', '"cpu_op"', '"cpu_op"', '"cuda_runtime"',
    '"cuda_runtime"', '"cuda_driver"', '"user_annotation"', '"python_function"', '"cuda_sync"',
    '"gpu_user_annotation"', '"Trace"', '"fwdbwd"', '"ac2g"', '"overhead"', '"mystery"', '"Kernel"',
])  # fmt: skip
name = st.sampled_from(
    [
        '"aten::mm"',
        '"gemm"',
        '"ncclDevKernel_AllReduce"',
        '"Memcpy HtoD (Pinned -> Device)"',
        '"ProfilerStep#3"',
        '"ProfilerStep"',
        '"Iteration 5"',
        '"Memset"',
        '"[memory]"',
        '"process_name"',
        '"thread_name"',
        '"copy"',
        '"record_param_comms"',
    ]
)
keys = st.sampled_from([
    "correlation", "Sequence number", "Fwd thread id", "Input Dims", "Input dims", "Input type",
    "Input Strides", "Concrete Inputs", "Call stack", "Python id", "Python parent id",
    "Python module id", "device", "stream", "context",
    "grid", "block", "registers per thread", "shared memory", "bytes", "kind", "graph id",
    "graph node id", "Collective name", "cuda_sync_kind", "wait_on_cuda_event_id", "wait_on_stream",
    "wait_on_cuda_event_record_corr_id", "Bytes", "Device Type", "Device Id", "Addr",
    "Total Allocated", "Total Reserved", "name", "Process Group Name", "Process Group ID",
    "Process Group Description", "Process Group Ranks", "Group size", "Seq", "Collective seq",
    "dtype", "In msg nelems", "Out msg nelems", "Src Rank", "Dst Rank",
    "unknown", "c\\u006frrelation", "corr\\u00e9lation",
])  # fmt: skip


def as_object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{key}": {item}' for key, item in pairs) + "}"


arguments = st.lists(st.tuples(keys, value), max_size=6).map(as_object)
fields = st.tuples(
    st.tuples(st.just("ph"), phase),
    st.tuples(st.just("cat"), category | category | category | odd),
    st.tuples(st.just("name"), name | name | value),
    st.tuples(st.just("pid"), plain | plain | odd),
    st.tuples(st.just("tid"), plain | plain | odd),
    st.tuples(st.just("ts"), plain | plain | plain | odd),
    st.tuples(st.just("dur"), plain | plain | plain | odd),
    st.tuples(st.just("id"), plain),
    st.tuples(st.just("args"), arguments | arguments | arguments | odd),
)


@st.composite
def events(draw: st.DrawFn) -> str:
    """An event as text: its keys in any order, some missing, some twice."""
    pairs = list(draw(st.permutations(draw(fields))))
    if draw(st.integers(0, 3)) == 0:
        pairs.pop()
    if draw(st.integers(0, 3)) == 0:
        pairs.append(draw(st.sampled_from(pairs)))
    if draw(st.integers(0, 5)) == 0:
        pairs.append(("args", draw(arguments)))
    return as_object(pairs)


separator = st.sampled_from([", ", ", ", ", ", ",\n", ",,", " ", ",\ufeff", "\u00a0,", ",\x0b"])
base = st.sampled_from(["0", "5", "1767189312000000000", str(2**62 - 1), '"x"'])


@given(st.lists(events() | events() | odd, max_size=8), separator, base, st.sampled_from(PIECES))
@settings(max_examples=examples(250))
def test_any_trace(
    tmp_path_factory: pytest.TempPathFactory, items: list[str], between: str, base: str, size: int
) -> None:
    document = f'{{"baseTimeNanoseconds": {base}, "traceEvents": [{between.join(items)}], "x": 1}}'
    path = t.write_text(tmp_path_factory.mktemp("any"), document.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "PIECE_BYTES", size)
        assert differences(path) == []


# -- damage -------------------------------------------------------------------------------------

TOKENS = [
    b'"', b"\\", b'\\"', b"\\u", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"NaN",
    b"1e999", b"-", b"0.5", b"\x01", b"\xff", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"01", b'"ph":',
]  # fmt: skip


def damaged(data: bytes, random: Random) -> bytes:
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 6))):
        at = random.randrange(len(out))
        kind = random.randrange(5)
        if kind == 0:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del out[at : at + random.randrange(1, 40)]
        elif kind == 2:
            other = random.randrange(len(out))
            out[at:at] = out[other : other + random.randrange(300)]
        elif kind == 3 and random.randrange(3) == 0:
            del out[at:]
        else:
            out[at:at] = random.choice(TOKENS)
        if not out:
            break
    return bytes(out)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_traces(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short run of the fuzzer: same seeds, same inputs."""
    random = Random(seed)
    source = files_of("two_threads", 0, DIALECT_NAMES[seed % len(DIALECT_NAMES)])[0].read_bytes()
    start = source.index(b'"traceEvents"')
    for _ in sample(range(60), 5):
        monkeypatch.setattr(reading, "PIECE_BYTES", random.choice(PIECES))
        first = random.randrange(start, len(source) - 6_000)
        part = (
            source[: start + 17]
            + source[source.index(b"{", first) :][: random.choice((400, 6_000))]
        )
        path = t.write_text(tmp_path, damaged(part, random))
        assert differences(path) == [], path.read_bytes()


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    data = t.text_of([t.op("a", 1, 2), t.kernel("k\u00e9", "3.5", 1, 4)]).encode()
    for size in sample(range(1, len(data)), 4):
        assert differences(t.write_text(tmp_path, data[:size])) == [], size


def test_begins_and_ends_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 64)
    random = Random(1)
    halves: list[Any] = [
        {
            "ph": random.choice("BBE"),
            "pid": random.randrange(2),
            "tid": 1,
            "ts": i // 3,
            "name": f"n{i}",
            "cat": random.choice(["cpu_op", "x"]),
            "args": {"Collective name": "c"} if i % 5 == 0 else {},
        }
        for i in range(300)
    ]
    halves += [t.event("cpu_op", "whole", i, 3, pid=0, tid=1) for i in range(50)]
    random.shuffle(halves)
    assert differences(t.write(tmp_path, halves)) == []


def test_arrows_with_equal_numbers_and_equal_times(tmp_path: Path) -> None:
    for seed in range(20):
        random = Random(seed)
        place = [(t.PID, t.TID), (t.PID, t.TID + 1), (0, 7)]
        found: list[Any] = []
        for i in range(40):
            kind, way = random.choice("sf"), random.choice(["ac2g", "fwdbwd"])
            found.append(
                t.flow(kind, random.randrange(6), random.choice(place), random.randrange(12), way)
            )
            args = {"Sequence number": random.randrange(4), "Fwd thread id": random.randrange(2)}
            found.append(
                t.host(
                    "cpu_op",
                    f"op{i}",
                    random.randrange(12),
                    random.randrange(4),
                    tid=t.TID + random.randrange(2),
                    **args,
                )
            )
            found.append(t.call("cudaLaunchKernel", random.randrange(12), 1, random.randrange(30)))
            numbers = [random.randrange(60)] if random.random() < 0.5 else []
            found.append(t.kernel(f"k{i}", random.randrange(12), 1, *numbers))
        assert differences(t.write(tmp_path, found)) == [], seed
