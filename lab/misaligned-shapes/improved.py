"""The same with a vocabulary that is padded to a multiple of 64."""

import torch
from torch import nn

import sightline as sl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
# Without a GPU: small enough for a try.
LAYERS, WIDTH, LENGTH, BATCH, STEPS = (4, 2048, 1024, 8, 60) if ON_GPU else (2, 64, 16, 2, 3)
TOKENS = 50_304 if ON_GPU else 128


def make_model() -> nn.Module:
    """A decoder in bf16."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, WIDTH // 64, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    )
    blocks = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(TOKENS, WIDTH), blocks, nn.Linear(WIDTH, TOKENS))
    return model.to(DEVICE, torch.bfloat16)


def run_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, texts: torch.Tensor
) -> torch.Tensor:
    """Forward, backward, and new weights; the loss."""
    optimizer.zero_grad()
    logits = model(texts[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    return loss.detach()


def main() -> None:
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts = torch.randint(0, TOKENS, (BATCH, LENGTH + 1), device=DEVICE)
    for _ in range(STEPS):
        run_step(model, optimizer, texts)
        sl.step()


if __name__ == "__main__":
    main()
