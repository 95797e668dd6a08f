"""Files that are not recordings: one message says what they are and what to type instead."""

from __future__ import annotations

import pickle

import pytest

from support.command import sightline

NSYS = "nsys export --type sqlite"


@pytest.mark.parametrize(
    ("content", "what", "instead"),
    [
        (b"%PDF-1.4\n%\xe2\xe3", "a PDF document", "sightline formats"),
        (b"\x7fELF\x02\x01\x01" + bytes(60), "it is a program", "sightline run"),
        (b"\x89PNG\r\n\x1a\n", "a picture", "sightline formats"),
        (b"<svg xmlns='x'></svg>", "a picture (SVG)", "--format speedscope"),
        (b"<!DOCTYPE html><html></html>", "an HTML page", "sightline formats"),
        (b"PK\x03\x04\x14\x00", "a ZIP archive", "Unpack it"),
        (b'{"cells": [], "nbformat": 4}', "a Jupyter notebook", "sightline formats"),
        (b'{"type":"String","id":"3720","value":"x"}\n', "JSON lines", NSYS),
        (b"Start (ns),Range Instance\n1,2\n", "a table of nsys stats", NSYS),
        (b'"Time (%)","Total Time (ns)"\n', "a table of nsys stats", NSYS),
        (b'"Name","Calls","TotalDurationNs"\n', "a summary of rocprofv3", "--sys-trace"),
        (pickle.dumps({"weights": []}), "a Python pickle", "_dump_snapshot"),
        (b"workload_name,command,version\nv,./v,2\n", "the description of a machine", "folder"),
        (b"device,HBMBw,HBMBwLow\n0,1388.9,1388.3\n", "a GPU's ceilings", "folder"),
        (b"pmc: SQ_WAVES GRBM_COUNT\n", "what to record", "rocprofv3 -i INPUT"),
        (b'{"counter_names":[],"gfxip":9}', "thread trace of AMD", "code.json"),
        (b"HPCTOOLKITmeta\x04\x00", "one file of an HPCToolkit database", "sightline DATABASE"),
        (b"PROJECTIONS-RECORD 985\n6 1\n", "Charm++", "sightline formats"),
        (b"packet {\n  timestamp: 1\n}\n", "a Perfetto trace", "protoc --encode"),
        (b'{"schema": "1.0.2-chakra.0.0.4", "pid": 1}', "an execution trace", "PyTorch profiler"),
        (b"[total if equals to]\nL0_backend\n", "settings (INI)", "sightline formats"),
        (b"Failed to initialize NVML: Driver/library version mismatch\n", "version", "Restart"),
        (b"No devices were found\n", "found no GPU", "dmesg"),
        (
            b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            b"Make sure that the latest NVIDIA driver is installed and running.\n",
            "driver",
            "modprobe",
        ),
        (
            b"GPU 0: NVIDIA A30 (UUID: GPU-0898)\n  MIG 1g.6gb Device 0: (UUID: MIG-1)\n"
            b"GPU 1: NVIDIA A30 (UUID: GPU-0899)\n",
            "list of GPUs",
            "--query-gpu",
        ),
        (b"hello world", "no known format", "sightline formats"),
    ],
)
@pytest.mark.parametrize("command", [["report"], ["stats", "kernels"]])
def test_what_is_no_recording_is_named(tmp_path, content, what, instead, command):
    file = tmp_path / "given"
    file.write_bytes(content)
    outcome = sightline(*command, file)
    assert (outcome.code, outcome.out) == (2, "")
    said = " ".join(outcome.err.split())
    assert what in said
    assert instead in said
    assert len(outcome.err.splitlines()) <= 6


def test_an_empty_folder_is_said_to_be_empty(tmp_path):
    (tmp_path / "plugins" / "profile").mkdir(parents=True)
    outcome = sightline("report", tmp_path)
    assert outcome.code == 2
    assert "it is empty" in " ".join(outcome.err.split())


def test_how_each_format_is_recognised_is_listed():
    out = sightline("formats").out
    assert 'recognised by JSON with "traceEvents"' in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_folder_of_other_files_names_them_and_no_list_of_endings(tmp_path):
    for n in range(5):
        (tmp_path / f"notes{n}.xyz").write_text("x")
    said = " ".join(sightline("report", tmp_path).err.split())
    assert "none of its 5 files has an ending that recordings have (notes0.xyz" in said
    assert ".sqlite" not in said
