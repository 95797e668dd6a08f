"""The same with a collective for each gradient as a whole."""

import os

import torch
import torch.distributed as dist
from torch import nn

import sightline as sl

RANK = int(os.environ["LOCAL_RANK"])
LAYERS, WIDTH, LENGTH, BATCH, STEPS = 3, 2048, 1024, 8, 60
TOKENS = 32_000
WORK: list[dist.Work] = []


def make_model() -> nn.Module:
    """A decoder in bf16."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, WIDTH // 64, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    )
    blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(TOKENS, WIDTH), blocks, nn.Linear(WIDTH, TOKENS))
    return model.to("cuda", torch.bfloat16)


def send_gradient(parameter: nn.Parameter) -> None:
    """Sum a gradient over all ranks as soon as it is there, beside the backward pass."""
    WORK.append(dist.all_reduce(parameter.grad, async_op=True))


def run_step(model: nn.Module, optimizer: torch.optim.Optimizer, texts: torch.Tensor) -> None:
    """Forward, backward with the sum of all ranks' gradients, and new weights."""
    optimizer.zero_grad()
    logits = model(texts[:, :-1])
    nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten()).backward()
    while WORK:
        WORK.pop().wait()
    optimizer.step()


def main() -> None:
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = make_model()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(send_gradient)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts = torch.randint(0, TOKENS, (BATCH, LENGTH + 1), device="cuda")
    for _ in range(STEPS):
        run_step(model, optimizer, texts)
        sl.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
