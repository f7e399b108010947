"""Actors that act in turn: each is asked where it has a choice, and says the same as if it were asked everywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.episodes import record_episodes
from jaxvrp.policies import actors
from jaxvrp.policies.actors import Seen, build_actors
from jaxvrp.policies.blocks import Blocks
from train.on_policy.config import PPOConfig


@pytest.mark.parametrize("needed", [[0, 1, 0, 0, 1, 1, 0], [0] * 4, [1] * 7, [1], [0]])
def test_blocks_begin_with_the_rows_that_are_needed(needed):
    rows = np.array(needed, bool)
    cut = Blocks.of(jnp.asarray(rows), 3)
    order = cut.row.ravel()[~np.asarray(cut.is_again).ravel()]
    np.testing.assert_array_equal(order, np.argsort(~rows, kind="stable"))
    np.testing.assert_array_equal(order[cut.place], np.arange(len(rows)))
    assert cut.row.shape[1] <= 3 and (np.asarray(cut.row)[np.asarray(cut.is_again)] == order[-1]).all()
    np.testing.assert_array_equal(cut.cut(jnp.asarray(rows)), rows[np.asarray(cut.row)])


@pytest.mark.slow
def test_logits_of_those_who_decide_are_as_if_all_were_asked(monkeypatch):
    monkeypatch.setattr(actors, "BLOCK", 5)
    env = jaxvrp.make("tsp_drone", num_nodes=6, allow_revisits=False)
    keys = {"attention_size": 8, "attention_layers": 1, "attention_encode": "agent", "attention_nearest": 3}
    team = build_actors(PPOConfig(network="attention", **keys), env)
    params = {role: team.init(jax.random.key(seed), role) for seed, role in enumerate(team.names)}
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)

    @jax.jit
    def compare(key):
        instances = jax.vmap(env.generate)(jax.random.split(key, 8))
        states = record_episodes(env, RandomActor(env), instances, key, lambda _, state, __: state)[1]
        states = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
        seen = jax.tree.map(lambda leaf: leaf[None], jax.vmap(lambda state: Seen.in_state(env, state))(states))
        mask, reset = jax.vmap(env.action_mask)(states), jnp.zeros((1, len(states.step)), bool)
        carry = team.initial_carry(len(states.step))
        return mask, team.apply(params, seen, carry, reset)[0], team.apply_step(params, seen, mask, carry, reset)[0]

    mask, everywhere, where = jax.device_get(compare(jax.random.key(0)))
    for role in env.roles:
        decides = (mask[role].sum(axis=-1) > 1)[:, 0]
        np.testing.assert_allclose(where[role][0, decides], everywhere[role][0, decides], atol=1e-5)
        left_out = (where[role][0] == 0).all(axis=(1, 2))
        assert decides.any() and left_out.sum() > 0.3 * len(decides) and not (left_out & decides).any()
