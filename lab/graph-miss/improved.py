"""The same with the kernels of a token captured once, and launched as one CUDA graph."""

import torch
from torch import nn

import sightline as sl

LAYERS, WIDTH, STEPS = 12, 2048, 200
TOKENS = 32_000


class Block(nn.Module):
    """A block of a small language model, for one token: a mixer and a multilayer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.mix, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.out(nn.functional.silu(self.mix(self.norm(x))))
        return x + self.down(nn.functional.silu(self.up(x)))


def make_model() -> nn.Module:
    """A language model in bf16: from a token to the next one's scores."""
    blocks = (Block() for _ in range(LAYERS))
    model = nn.Sequential(nn.Embedding(TOKENS, WIDTH), *blocks, nn.Linear(WIDTH, TOKENS))
    return model.to("cuda", torch.bfloat16)


def capture(model: nn.Module, token: torch.Tensor) -> torch.cuda.CUDAGraph:
    """A graph that replaces the token by the next one."""
    for _ in range(3):  # what is loaded or chosen at the first call must not be captured
        token.copy_(model(token).argmax(-1))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        token.copy_(model(token).argmax(-1))
    return graph


def run_step(graph: torch.cuda.CUDAGraph) -> None:
    """Replace the token by the next one."""
    graph.replay()


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(0)
    model = make_model()
    token = torch.zeros(1, dtype=torch.long, device="cuda")
    graph = capture(model, token)
    for _ in range(STEPS):
        run_step(graph)
        sl.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
