import torch
import torch._inductor.config


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(64, 128)
        self.down = torch.nn.Linear(128, 64)

    def forward(self, x):
        gate = torch.nn.functional.silu(self.up(x))
        mixed = gate * torch.sin(gate)
        return torch.nn.functional.layer_norm(self.down(mixed) + x, (64,))


torch._inductor.config.cpp.enable_kernel_profile = True


def train():
    torch.manual_seed(0)
    block = torch.compile(Block())
    x = torch.randn(32, 64)
    for _ in range(2):
        block(x).square().mean().backward()
    with torch.profiler.profile(with_stack=False, record_shapes=True) as profile:
        block(x).square().mean().backward()
    profile.export_chrome_trace("trace.json")


if __name__ == "__main__":
    train()
