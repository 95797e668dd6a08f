"""Blocks whose activation is written out in PyTorch, operation by operation."""

import torch

import sightline as sl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ON_GPU = DEVICE == "cuda"
# Without a GPU: small enough for a try.
LAYERS, WIDTH, ROWS, STEPS = (6, 4096, 8192, 60) if ON_GPU else (2, 64, 32, 3)
DTYPE = torch.bfloat16 if ON_GPU else torch.float32


def activate(hidden: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """GELU of hidden + bias by its tanh form, and the residual: eleven kernels."""
    hidden = hidden + bias
    cube = hidden * hidden * hidden
    inner = 0.79788456 * (hidden + 0.044715 * cube)
    return residual + 0.5 * hidden * (1 + torch.tanh(inner))


@torch.inference_mode()
def run_step(
    weights: list[torch.Tensor], biases: list[torch.Tensor], rows: torch.Tensor
) -> torch.Tensor:
    """All blocks, one after another."""
    for weight, bias in zip(weights, biases, strict=True):
        rows = activate(rows @ weight, bias, rows)
    return rows


def main() -> None:
    torch.manual_seed(0)
    options = {"device": DEVICE, "dtype": DTYPE}
    weights = [torch.randn(WIDTH, WIDTH, **options) / WIDTH for _ in range(LAYERS)]
    biases = [torch.zeros(WIDTH, **options) for _ in range(LAYERS)]
    rows = torch.randn(ROWS, WIDTH, **options)
    for _ in range(STEPS):
        run_step(weights, biases, rows)
        sl.step()


if __name__ == "__main__":
    main()
