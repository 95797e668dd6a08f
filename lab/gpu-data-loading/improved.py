"""The same with as many workers as it takes."""

import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import sightline as sl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
# Without a GPU: small enough for a try.
BLOCKS, WIDTH, SIZE, BATCH, STEPS = (6, 256, 224, 166, 60) if ON_GPU else (2, 8, 32, 2, 3)


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
    return model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last)


class Images(Dataset):
    """Packed images, unpacked when they are asked for."""

    def __init__(self) -> None:
        noise = torch.randint(0, 64, (3 * SIZE * SIZE,), dtype=torch.uint8)
        self.packed = zlib.compress(noise.numpy().tobytes(), 6)

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = bytearray(zlib.decompress(self.packed))
        return torch.frombuffer(pixels, dtype=torch.uint8).view(3, SIZE, SIZE), index % 1000


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


def main() -> None:
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loader = DataLoader(Images(), batch_size=BATCH, num_workers=12, pin_memory=ON_GPU)
    for images, labels in loader:
        images, labels = (t.to(DEVICE, non_blocking=True) for t in (images, labels))
        run_step(model, optimizer, images / 255, labels)
        sl.step()


if __name__ == "__main__":
    main()
