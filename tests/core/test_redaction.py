"""Command lines keep names only; texts lose what looks like a secret."""

from __future__ import annotations

import pytest

from sightline.core.redaction import redact_frame, redact_text, show_command

SECRETS = {
    "flag": ("--token hunter2", "hunter2"),
    "flag with a sign": ("--hf-token=hunter2", "hunter2"),
    "password": ("--password 'my pass word'", "my pass word"),
    "short password": ("mysql -p hunter2", "hunter2"),
    "short key": ("curl -k hunter2", "hunter2"),
    "pwd": ("--pwd hunter2", "hunter2"),
    "cookie": ("--cookie=session:hunter2", "hunter2"),
    "api key": ("--api-key hunter2", "hunter2"),
    "variable": ("WANDB_API_KEY=hunter2 python t.py", "hunter2"),
    "header": ("-H 'Authorization: Bearer hunter2hunter2'", "hunter2"),
    "basic": ("Authorization: Basic aHVudGVyMg==", "aHVudGVyMg=="),
    "address": ("https://eva:hunter2@example.org/x", "hunter2"),
    "github": ("clone with ghp_0123456789abcdefghij0123456789abcdef", "ghp_0123456789"),
    "hugging face": ("hf_abcdefghijklmnopqrstuvwxyz", "abcdefghij"),
    "openai": ("key sk-abcdefghijklmnopqrstuvwxyz012345", "abcdefghij"),
    "aws": ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_def-ghi", "eyJzdWIi"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_text_loses_secrets(name: str) -> None:
    text, secret = SECRETS[name]
    assert secret not in redact_text(text)
    assert "…" in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "at::native::tokenize_kernel<float>(int, float*)",
        "cudaMemcpyAsync",
        "forward pass 3 of 5",
        "flash_attn::author = 3",
        "key_value_cache (cache.py:12)",
        "https://docs.nvidia.com/nsight-compute",
        "risk-averse_scheduling_of_tasks_in_queues",
    ],
)
def test_ordinary_names_stay(text: str) -> None:
    assert redact_text(text) == text


def test_command_keeps_the_program_and_the_names_of_flags() -> None:
    command = [
        "/home/eva/bin/python", "-u", "/home/eva/secret-project/train.py", "--lr", "0.1",
        "--hf-token", "abc", "--wandb-key=def", "AUTH=xyz", "for", "eva",
    ]  # fmt: skip
    assert show_command(command) == [
        "python", "-u", "train.py", "--lr", "…", "--hf-token", "…", "--wandb-key=…", "…",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("mysql -phunter2 -u eva", "mysql -p… -u …"),
        ("curl -k=hunter2", "curl -k…"),
        ("mpirun -np 4 -hostfile hosts", "mpirun -np … -hostfile …"),
        ("python -uB t.py --lr=1", "python -u… t.py --lr=…"),
    ],
)
def test_what_stands_behind_a_letter_is_its_value(words: str, shown: str) -> None:
    assert " ".join(show_command(words.split())) == shown


def test_root_frame_of_py_spy_keeps_as_much() -> None:
    shown = redact_frame('process 42:"python train.py --token hunter2 positional"')
    assert shown == "process 42:python train.py --token …"
    assert redact_frame("forward (model.py:12)") == "forward (model.py:12)"


def test_a_thread_of_a_process_is_no_command_line() -> None:
    """py-spy --subprocesses names threads so: two of them are not one."""
    name = 'Process 100 Thread 101 "worker"'
    assert redact_frame(name) == name
    assert "hunter2" not in redact_frame("process 100:python train.py --password hunter2")
