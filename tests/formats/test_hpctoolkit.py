"""HPCToolkit's databases: own times of call paths, GPU kernels, damage; real ones' totals."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame
from sightline.formats.hpc import hpctoolkit
from sightline.formats.hpc.hpctoolkit import database
from support.damage import survive_damage
from support.stacks import add_up_weights, find_weights

EXPERIMENT = """<?xml version="1.0"?>
<!DOCTYPE HPCToolkitExperiment [ <!ELEMENT HPCToolkitExperiment (Header)> ]>
<HPCToolkitExperiment version="2.1"><SecCallPathProfile i="0" n="app"><SecHeader>
<MetricTable><Metric i="2" n="CPUTIME (usec):Sum (I)" t="inclusive"/>
<Metric i="3" n="CPUTIME (usec):Sum (E)" t="exclusive"/></MetricTable>
<LoadModuleTable><LoadModule i="2" n="/x/app"/></LoadModuleTable>
<FileTable><File i="3" n="/x/app.c"/></FileTable>
<ProcedureTable><Procedure i="4" n="main"/><Procedure i="5" n="work"/></ProcedureTable>
</SecHeader><SecCallPathProfileData><M n="2" v="30"/>
<PF i="2" s="4" l="1" lm="2" f="3" n="4"><M n="2" v="30"/>
<S i="3" s="8" l="7"><M n="2" v="10"/><M n="3" v="10"/></S>
<C i="4" s="9" l="9"><M n="2" v="20"/><PF i="5" s="5" l="20" lm="2" f="3" n="5">
<M n="2" v="20"/><M n="3" v="20"/><L i="6" s="6" l="21">
<S i="7" s="7" l="22"><M n="3" v="20"/></S></L>
</PF></C></PF></SecCallPathProfileData></SecCallPathProfile></HPCToolkitExperiment>
"""


def write_database(folder: Path) -> Path:
    """main (2.5 s itself of 4 s) calls work (1.5 s) on the CPU, and launches gemm (7.5 us)."""
    data = bytearray(0x90)
    data[:16] = b"HPCTOOLKITmeta\x04\x00"

    def add(form: str, *values: object) -> int:
        data.extend(b"\0" * (-len(data) % 8))
        at = len(data)
        data.extend(struct.pack(f"<{form}", *values))
        return at

    def text(value: str) -> int:
        return add(f"{len(value) + 1}s", value.encode())

    scope = add("QBB6x", text("execution"), 2, 0)
    formula, names = text("$$"), [text("CPUTIME (sec)"), text("GPUOP (sec)")]
    sums = [add("QQB1xH4x", scope, formula, 0, 5), add("QQB1xH4x", scope, formula, 0, 6)]
    metrics = add("QQQHH4x" * 2, names[0], 0, sums[0], 0, 1, names[1], 0, sums[1], 0, 1)
    header = add("QIBBB", metrics, 2, 32, 16, 24)
    file = add("I4xQ", 0, text("/x/app.c"))
    module = add("I4xQ", 0, text("/x/app"))
    functions = {
        name: add("QQQQII", text(name), module, 0, file, 1, 0)
        for name in ("main", "work", "<gpu kernel>", "gemm")
    }

    def context(number: int, name: str, children: tuple[int, int] = (0, 0)) -> bytes:
        flex = struct.pack("<Q", functions[name])
        return struct.pack("<QQIBBBBH6x", *children, number, 1, 1, 0, 1, 0) + flex

    def add_contexts(*contexts: bytes) -> tuple[int, int]:
        whole = b"".join(contexts)
        return len(whole), add(f"{len(whole)}s", whole)

    gemm = add_contexts(context(4, "gemm"))
    inner = add_contexts(context(2, "work"), context(3, "<gpu kernel>", gemm))
    outer = add_contexts(context(1, "main", inner))
    entry = add("QQIH2xQ", *outer, 9, 1, text("main thread"))
    tree = add("QHB", entry, 1, 32)
    struct.pack_into("<QQ", data, 0x30, 0, header)
    struct.pack_into("<QQ", data, 0x40, 0, tree)
    (folder / "meta.db").write_bytes(data)

    # Each context's sums over threads, (metric, value): 5 is the CPU's time, 6 the GPU's.
    sums_of = {9: [(5, 4.0), (6, 7.5e-6)], 1: [(5, 4.0), (6, 7.5e-6)], 2: [(5, 1.5)],
               3: [(6, 7.5e-6)], 4: [(6, 7.5e-6)]}  # fmt: skip
    values = [pair for context in sorted(sums_of) for pair in sums_of[context]]
    packed = b"".join(struct.pack("<Hd", *pair) for pair in values)
    starts, index = 0, b""
    for number in sorted(sums_of):
        index += struct.pack("<IQ", number, starts)
        starts += len(sums_of[number])
    profile = bytearray(0x30)
    profile[:16] = b"HPCTOOLKITprof\x04\x00"
    struct.pack_into("<QQ", profile, 0x10, 0, 0x30)
    profile += struct.pack("<QIB3x", 0x40, 1, 48)
    at = 0x40 + 48
    profile += struct.pack("<QQI4xQ", len(values), at, len(sums_of), at + len(packed))
    profile += struct.pack("<QI4x", 0, 1) + packed + index
    (folder / "profile.db").write_bytes(profile)
    return folder


def test_a_database_of_version_4(tmp_path: Path) -> None:
    assert find_weights(write_database(tmp_path)) == {
        ("cpu_time_ns", "<main thread>", "main"): 2_500_000_000,
        ("cpu_time_ns", "<main thread>", "main", "work"): 1_500_000_000,
        ("gpu_time_ns", "<main thread>", "main", "<gpu kernel>", "gemm"): 7_500,
    }


def test_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "experiment.xml").write_text(EXPERIMENT)
    expected = {("cpu_time_ns", "main"): 10_000, ("cpu_time_ns", "main", "work"): 20_000}
    assert find_weights(tmp_path) == expected
    assert find_weights(tmp_path / "experiment.xml") == expected


def test_calls_that_are_deeper_than_stacks_can_be(tmp_path: Path) -> None:
    """What they cost is told of at the deepest frame that is kept."""
    head = EXPERIMENT.partition("<SecCallPathProfileData>")[0]
    one = '<PF i="2" s="4" l="1" lm="2" f="3" n="4"><S i="3" s="8" l="7"><M n="3" v="1"/></S>'
    text = f"{head}<SecCallPathProfileData>{one * 3_000}{'</PF>' * 3_000}"
    text += "</SecCallPathProfileData></SecCallPathProfile></HPCToolkitExperiment>"
    (tmp_path / "experiment.xml").write_text(text)
    weights = find_weights(tmp_path / "experiment.xml")
    assert max(map(len, weights)) == 1_025  # the weight's name, and the frames
    assert sum(weights.values()) == 3_000_000


def test_paths_share_what_is_above_them() -> None:
    path = database._Path(Frame("native", "f0"))
    for number in range(1, 900):
        path = database._Path(Frame("native", f"f{number}"), path, path.depth + 1)
    assert [frame.function for frame in path.frames()] == [f"f{n}" for n in range(900)]


def read_folder(source: Source, options: ImportOptions) -> Imported:
    return hpctoolkit.read(Source(source.path.parent, "database"), options)


@pytest.mark.parametrize("name", ["meta.db", "profile.db"])
def test_damage_to_a_database(tmp_path: Path, name: str) -> None:
    path = write_database(tmp_path) / name
    survive_damage(read_folder, path, path.read_bytes())


def test_damage_to_an_experiment(tmp_path: Path) -> None:
    survive_damage(hpctoolkit.read, tmp_path / "experiment.xml", EXPERIMENT)


# -- real databases --------------------------------------------------------------------------------


@pytest.mark.corpus
def test_a_real_database_adds_up_to_its_threads(corpus: Path) -> None:
    """By struct alone: what each thread's profile has for the whole program (context 0)."""
    folder = corpus / "hpctoolkit/hatchet__hatchet/hatchet/tests/data/hatchet_cpi_v4_database"
    data = (folder / "profile.db").read_bytes()
    (info,) = struct.unpack_from("<Q", data, 0x18)
    first, count, size = struct.unpack_from("<QIB", data, info)
    threads = []
    for number in range(1, count):
        n, values, _, index = struct.unpack_from("<QQI4xQ", data, first + number * size)
        (context,) = struct.unpack_from("<I", data, index)
        if context == 0 and n:
            threads.append(
                max(v for _, v in struct.iter_unpack("<Hd", data[values : values + 10 * n]))
            )
    total = add_up_weights(find_weights(folder))
    assert total["cpu_time_ns"] == pytest.approx(sum(threads) * 1e9, abs=len(threads))
    assert total["cpu_time_ns"] == 325_975_000


@pytest.mark.corpus
def test_a_real_experiment_adds_up(corpus: Path) -> None:
    """By regular expressions alone: statements' own times; their sum to six digits in the file."""
    folder = corpus / "hpctoolkit/LLNL__hatchet/hatchet/tests/data/hpctoolkit-allgather-database"
    path = folder / "experiment.xml"
    text = path.read_text()
    statements = re.findall(r"<[SC] [^>]*?>\s*((?:<M [^>]*/>\s*)+)", text)
    own = sum(float(v) for one in statements for v in re.findall(r'n="3" v="([^"]+)"', one))
    total = add_up_weights(find_weights(path.parent))["cpu_time_ns"]
    assert total == own * 1000
    assert f"{total / 1000:.5e}" == "2.61584e+07"
    assert '<M n="2" v="2.61584e+07"/>' in text
