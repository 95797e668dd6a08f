"""The same with the statistics computed at once, and the activations let go."""

import torch
from torch import nn

import sightline as sl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
# Without a GPU: small enough for a try.
LAYERS, WIDTH, LENGTH, BATCH, STEPS = (8, 1024, 512, 4, 20) if ON_GPU else (2, 64, 16, 2, 3)
TOKENS = 32_000 if ON_GPU else 100
SEEN: list[torch.Tensor] = []


def make_model() -> nn.ModuleList:
    """A decoder in bf16: embedding, blocks, head."""
    parts: list[nn.Module] = [nn.Embedding(TOKENS, WIDTH)]
    for _ in range(LAYERS):
        parts.append(
            nn.TransformerEncoderLayer(
                WIDTH, WIDTH // 64, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
        )
    parts.append(nn.Linear(WIDTH, TOKENS))
    return nn.ModuleList(parts).to(DEVICE, torch.bfloat16)


def run_step(model: nn.ModuleList, optimizer: torch.optim.Optimizer, texts: torch.Tensor) -> None:
    """Forward, backward, and new weights."""
    optimizer.zero_grad()
    x = texts[:, :-1]
    for part in model:
        x = part(x)
        SEEN.append(x.detach().float().mean())
    nn.functional.cross_entropy(x.flatten(0, 1), texts[:, 1:].flatten()).backward()
    optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    if ON_GPU:
        torch.cuda.memory._record_memory_history()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts = torch.randint(0, TOKENS, (BATCH, LENGTH + 1), device=DEVICE)
    for _ in range(STEPS):
        run_step(model, optimizer, texts)
        sl.step()
    if ON_GPU:
        torch.cuda.memory._dump_snapshot("snapshot.pickle")
    print(torch.stack(SEEN).mean().item())


if __name__ == "__main__":
    main()
