"""The parts of a board as entities say what the global vector says, which has its own parity test."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
from jaxvrp.entities import seen_as
from jaxvrp.testing import check_shapes


@pytest.mark.slow
def test_parts_are_those_of_the_global_vector():
    """Boards of different sizes, so that there is padding."""
    flat = jaxvrp.make("pcb", mode="simultaneous", num_boards=6, rays=1, max_steps=5)
    env = seen_as(flat, "entities")
    check_shapes(env)
    (kind,) = env.entity_kinds
    assert kind.name == "part" and len(env.roles["component"].context) == env.roles["component"].observation.shape[0]

    @jax.jit
    def look(key):
        state, _ = flat.reset(key)
        state, timestep = flat.step(state, {"component": jnp.full((flat.sizes.agents, 3), 0.3, jnp.float32)})
        planes = jnp.concatenate([env.static_entities(state)["part"], env.entities(state)["part"]])
        return timestep.global_observation, planes, env.global_observation(state) is None

    vector, planes, has_none = jax.device_get(jax.vmap(look)(jax.random.split(jax.random.key(0), 12)))
    assert has_none.all()
    rows = vector.reshape(12, kind.count, 9)
    shown = {feature.name: planes[:, index] for index, feature in enumerate(kind.features)}
    columns = ("present", "fixed", "side", "x", "y", "orientation", "width", "height", "overlap")
    for column, name in enumerate(columns):
        np.testing.assert_array_equal(shown[name], rows[..., column], err_msg=name)
    assert set(columns) == set(shown)
    assert 0 < shown["present"].mean() < 1 and shown["overlap"].any() and shown["fixed"].any()
    assert not planes[np.broadcast_to(shown["present"][:, None] == 0, planes.shape)].any()
