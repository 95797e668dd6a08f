"""The same with a step compiled as a whole."""

import jax
import jax.numpy as jnp

import sightline as sl

LAYERS, WIDTH, BATCH, STEPS = 24, 32, 32, 120
Weights = list[tuple[jax.Array, jax.Array]]


def make_weights() -> Weights:
    """A matrix and a bias for each layer."""
    keys = jax.random.split(jax.random.key(0), LAYERS)
    return [(jax.random.normal(k, (WIDTH, WIDTH)) / WIDTH, jnp.zeros(WIDTH)) for k in keys]


@jax.jit
def run_step(weights: Weights, x: jax.Array) -> jax.Array:
    """The forward pass."""
    for matrix, bias in weights:
        x = jnp.maximum(x @ matrix + bias, 0)
    return x


def main() -> None:
    weights, x = make_weights(), jnp.ones((BATCH, WIDTH))
    for _ in range(STEPS):
        x = run_step(weights, x)
        x.block_until_ready()
        sl.step()


if __name__ == "__main__":
    main()
