"""The same with a cache of full length, into which each token is written."""

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
    keys = torch.randn(1, HEADS, PROMPT + TOKENS, WIDTH)
    values = torch.randn(1, HEADS, PROMPT + TOKENS, WIDTH)
    token = torch.randn(1, 1, model)
    with torch.inference_mode():
        for place in range(PROMPT, PROMPT + TOKENS):
            query, key, value = mix(token).view(1, 3, HEADS, 1, WIDTH).unbind(1)
            keys[:, :, place] = key[:, :, 0]
            values[:, :, place] = value[:, :, 0]
            cached = keys[:, :, : place + 1], values[:, :, : place + 1]
            seen = nn.functional.scaled_dot_product_attention(query, *cached)
            token = project(seen.reshape(1, 1, model))
            sl.step()


if __name__ == "__main__":
    main()
