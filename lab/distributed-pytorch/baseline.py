"""Data-parallel training in which the data of one rank come late."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import sightline as sl

RANK = int(os.environ["LOCAL_RANK"])
LAYERS, WIDTH, LENGTH, BATCH, STEPS = 3, 2048, 1024, 8, 60
TOKENS = 32_000
SLOW_RANK = 2


def make_model() -> nn.Module:
    """A decoder in bf16."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, WIDTH // 64, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    )
    blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(TOKENS, WIDTH), blocks, nn.Linear(WIDTH, TOKENS))
    return model.to("cuda", torch.bfloat16)


class Texts(Dataset):
    """Texts, tokenized when they are asked for; those of rank 2 lie on a slow disk."""

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        if RANK == SLOW_RANK:
            time.sleep(0.004)
        return torch.arange(index, index + LENGTH + 1) % TOKENS


def run_step(model: nn.Module, optimizer: torch.optim.Optimizer, texts: torch.Tensor) -> None:
    """Forward, backward with the mean of all gradients, and new weights."""
    optimizer.zero_grad()
    logits = model(texts[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten()).backward()
    optimizer.step()


def main() -> None:
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = DistributedDataParallel(make_model(), device_ids=[RANK])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loader = DataLoader(Texts(), batch_size=BATCH, num_workers=3, pin_memory=True)
    for texts in loader:
        run_step(model, optimizer, texts.to("cuda", non_blocking=True))
        sl.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
