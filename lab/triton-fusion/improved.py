"""The same with one Triton kernel for bias, GELU and residual."""

import torch
import triton
import triton.language as tl

import sightline as sl

LAYERS, WIDTH, ROWS, STEPS = 6, 4096, 8192, 60
BLOCK = 2048


@triton.jit
def bias_gelu_residual(hidden, bias, residual, out, width, count, BLOCK: tl.constexpr):
    """Two reads and one write of all rows; what lies between stays in registers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(hidden + at, inside).to(tl.float32) + tl.load(bias + at % width, inside)
    inner = 0.79788456 * (x + 0.044715 * x * x * x)
    tanh = 1 - 2 / (1 + tl.exp(2 * inner))
    total = tl.load(residual + at, inside) + 0.5 * x * (1 + tanh)
    tl.store(out + at, total, inside)


def activate(hidden: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """GELU of hidden + bias by its tanh form, and the residual: one kernel."""
    out = torch.empty_like(hidden)
    count = hidden.numel()
    blocks = triton.cdiv(count, BLOCK)
    bias_gelu_residual[(blocks,)](hidden, bias, residual, out, hidden.shape[1], count, BLOCK)
    return out


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
    options = {"device": "cuda", "dtype": torch.bfloat16}
    weights = [torch.randn(WIDTH, WIDTH, **options) / WIDTH for _ in range(LAYERS)]
    biases = [torch.zeros(WIDTH, **options) for _ in range(LAYERS)]
    rows = torch.randn(ROWS, WIDTH, **options)
    for _ in range(STEPS):
        run_step(weights, biases, rows)
        sl.step()


if __name__ == "__main__":
    main()
