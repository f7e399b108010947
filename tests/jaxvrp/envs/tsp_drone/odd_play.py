"""Random play in which one action in ten is any number, legal or not."""

import functools

import jax
import jax.numpy as jnp

from jaxvrp.actor import sample_masked


@functools.partial(jax.jit, static_argnums=(0, 3))
def play(env, instances, key, num_steps):
    """States and timesteps `[num_steps + 1, E, ...]`, and the actions between them `{role: [num_steps, E]}`."""
    first = jax.vmap(env.reset_to)(instances)

    def body(played, key):
        state, timestep = played
        action = {}
        for role, mask in timestep.action_mask.items():
            legal_key, odd_key, which_key, key = jax.random.split(key, 4)
            rows = mask.shape[:2]
            legal = sample_masked(jax.random.uniform(legal_key, rows), mask)
            anything = jax.random.randint(odd_key, rows, -2, mask.shape[-1] + 2)
            action[role] = jnp.where(jax.random.bernoulli(which_key, 0.1, rows), anything, legal)
        played = jax.vmap(env.step)(state, action)
        return played, (played, jax.tree.map(lambda chosen: chosen[:, 0], action))

    _, (played, actions) = jax.lax.scan(body, first, jax.random.split(key, num_steps))
    return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), first, played), actions
