"""The same from pinned memory, on a stream of its own."""

import torch
from torch import nn

import sightline as sl

BLOCKS, WIDTH, SIZE, BATCH, STEPS = 6, 256, 224, 166, 60


class Block(nn.Module):
    """Three convolutions beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        layers = []
        for inputs, outputs, size in (
            (WIDTH, WIDTH // 4, 1),
            (WIDTH // 4, WIDTH // 4, 3),
            (WIDTH // 4, WIDTH, 1),
        ):
            convolution = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
            layers += [convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        self.path = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.path(images)


def make_model() -> nn.Module:
    """A residual net in bf16, channels last."""
    stem = [nn.Conv2d(3, WIDTH, 7, 4, 3, bias=False), nn.BatchNorm2d(WIDTH), nn.MaxPool2d(2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 1000)]
    model = nn.Sequential(*stem, *(Block() for _ in range(BLOCKS)), *head)
    return model.to("cuda", torch.bfloat16, memory_format=torch.channels_last)


def run_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
) -> None:
    """Forward, backward, and new weights."""
    optimizer.zero_grad()
    images = images.contiguous(memory_format=torch.channels_last).to(torch.bfloat16)
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def load(batch: torch.Tensor, copies: torch.cuda.Stream) -> torch.Tensor:
    """A batch on the GPU, copied while the GPU still computes."""
    compute = torch.cuda.current_stream()
    with torch.cuda.stream(copies):
        images = batch.to("cuda", non_blocking=True)
    compute.wait_stream(copies)
    images.record_stream(compute)
    return images


def main() -> None:
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = [torch.rand(BATCH, 3, SIZE, SIZE, pin_memory=True) for _ in range(4)]
    labels = torch.randint(0, 1000, (BATCH,), device="cuda")
    copies = torch.cuda.Stream()
    for step in range(STEPS):
        run_step(model, optimizer, load(batches[step % 4], copies), labels)
        sl.step()


if __name__ == "__main__":
    main()
