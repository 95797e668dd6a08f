"""Greedy decoding of one transformer layer whose key-value cache grows by cat: a copy per token."""

import torch
from torch import nn

import sightline as sl

TOKENS = 120
HEADS, PROMPT, WIDTH = 16, 512, 64


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = HEADS * WIDTH
    mix, project = nn.Linear(model, 3 * model), nn.Linear(model, model)
    keys = torch.randn(1, HEADS, PROMPT, WIDTH)
    values = torch.randn(1, HEADS, PROMPT, WIDTH)
    token = torch.randn(1, 1, model)
    with torch.inference_mode():
        for _ in range(TOKENS):
            query, key, value = mix(token).view(1, 3, HEADS, 1, WIDTH).unbind(1)
            keys = torch.cat((keys, key), dim=2)
            values = torch.cat((values, value), dim=2)
            seen = nn.functional.scaled_dot_product_attention(query, keys, values)
            token = project(seen.reshape(1, 1, model))
            sl.step()


if __name__ == "__main__":
    main()
