"""What all networks are made of."""

from __future__ import annotations

import flax.linen as nn
import jax


def layer_norm(x: jax.Array) -> jax.Array:
    """Normalise `[..., F]` to mean 0 and variance 1 over the last axis (Ba et al. 2016).

    Without scale and bias: the dense layer that follows absorbs them, and their gradients are slow on a CPU.
    """
    return nn.LayerNorm(use_scale=False, use_bias=False)(x)
