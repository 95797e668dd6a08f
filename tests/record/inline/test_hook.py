"""What is a launcher of ranks, and what is a rank."""

from __future__ import annotations

import pytest

from sightline.record.inline.hook import is_launcher


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python", "train.py"], False),
        (["python", "/x/bin/torchrun", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-X", "dev", "-u", "-m", "accelerate.commands.launch"], True),
        (["python", "-c", "import torch", "torchrun"], False),
        (["python", "train.py", "torchrun"], False),
    ],
)
def test_a_launcher_is_told_from_a_rank(command, expected):
    assert is_launcher(command) is expected
