"""Two models that look at the same input on two streams; the second one waits for the first."""

import torch
from torch import nn

import sightline as sl

LAYERS, WIDTH, LENGTH, BATCH, STEPS = 3, 1024, 512, 4, 60


def make_layer() -> nn.Module:
    """A block of a transformer in bf16, too small to fill a GPU."""
    layer = nn.TransformerEncoderLayer(
        WIDTH, WIDTH // 64, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return layer.to("cuda", torch.bfloat16)


def run_step(
    first: nn.ModuleList, second: nn.ModuleList, features: torch.Tensor, side: torch.cuda.Stream
) -> torch.Tensor:
    """Both models, layer by layer, and the mean of what they say."""
    left = right = features
    main = torch.cuda.current_stream()
    for one, other in zip(first, second, strict=True):
        left = one(left)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            right = other(right)
        main.wait_stream(side)
    return (left + right) / 2


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    first, second = (nn.ModuleList(make_layer() for _ in range(LAYERS)) for _ in range(2))
    features = torch.randn(BATCH, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    for _ in range(STEPS):
        run_step(first, second, features, side)
        sl.step()


if __name__ == "__main__":
    main()
