"""An image classifier that decodes its images in the training loop: no DataLoader workers."""

import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import sightline as sl

STEPS = 120
BATCH = 16


class Images(Dataset):
    """Packed images of 3 x 160 x 160 bytes, unpacked and scaled when they are asked for."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randint(0, 64, (8, 3 * 160 * 160), generator=generator, dtype=torch.uint8)
        self.packed = [zlib.compress(image.numpy().tobytes(), 6) for image in noise]

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = bytearray(zlib.decompress(self.packed[index % 8]))
        image = torch.frombuffer(pixels, dtype=torch.uint8).view(3, 32, 5, 32, 5)
        return image.float().mean(dim=(2, 4)).flatten() / 255, index % 10


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Images(), batch_size=BATCH)
    model = nn.Sequential(nn.Linear(3072, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        sl.step()


if __name__ == "__main__":
    main()
