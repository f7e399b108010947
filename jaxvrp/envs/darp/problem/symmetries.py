"""Other instances whose plans are plans of this one: the map turned and mirrored, and time reversed.

Turning or mirroring the map changes no distance: eight images. Driven backwards, a plan picks up where it dropped off,
with the same times between, loads and distances: eight more. A policy plans each image in another way, unless it is
made not to, and the best plan counts (Kwon et al. 2020 do so with the map).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from jaxvrp.envs.darp.problem.instance import Instance
from jaxvrp.envs.darp.problem.solution import actions_to_routes, routes_to_actions

NUM_IMAGES = 16
"""Eight of the map, each with time forwards and backwards."""


def image(instance: Instance, index: int) -> Instance:
    """An image of an instance, or of each of a batch, as JAX arrays.

    Args:
        instance: JAX arrays; the depot has a finite deadline.
        index: 0 to 15, 0 for the instance itself. Its binary digits, the last one first: time runs backwards; x changes
            its sign; y does; they change places.
    """
    backwards, mirrors_x, mirrors_y, swaps = (bool(index >> digit & 1) for digit in range(4))
    depot = instance.locs[..., :1, :]
    offset = (instance.locs - depot) * jnp.array([-1.0 if mirrors_x else 1.0, -1.0 if mirrors_y else 1.0], jnp.float32)
    turned = instance.replace(locs=depot + (offset[..., ::-1] if swaps else offset))
    return _backwards(turned) if backwards else turned


def plan_of_original(actions: ArrayLike, index: int, num_agents: int) -> np.ndarray:
    """What a plan of an image comes to in the instance itself.

    Driven backwards, who was picked up and never brought would be brought and never picked up: that visit is left out.

    Args:
        actions: `i[T]`, a plan of `image(instance, index)`.
        index: 0 to 15.
        num_agents: V.

    Returns:
        `i64[nodes + V]`, as of `routes_to_actions`.
    """
    routes = actions_to_routes(actions)
    if index & 1:
        partner = _partners(max(map(max, filter(None, routes)), default=0) + 1)
        whole = [[node for node in route if partner[node] in route] for route in routes]
        routes = [partner[route[::-1]].tolist() for route in whole]
    return routes_to_actions(routes, num_agents)


def _backwards(instance: Instance) -> Instance:
    """The instance in which a plan can be driven that is driven backwards in this one.

    A service from t to t + s becomes one from e + l - t - s to e + l - t, within the times [e, l] of the depot.
    """
    open_from, ends = instance.earliest[..., :1], instance.earliest[..., :1] + instance.deadline[..., :1]
    earliest = jnp.maximum(ends - instance.deadline - instance.service_time, open_from)
    deadline = ends - instance.earliest - instance.service_time
    is_padding = (instance.demand == 0) & (jnp.arange(instance.num_nodes + 1) > 0)
    partner = _partners(instance.num_nodes)

    def exchanged(values: jax.Array) -> jax.Array:
        return values[..., partner]

    return instance.replace(
        locs=instance.locs[..., partner, :],
        earliest=exchanged(jnp.where(is_padding, 0.0, earliest)),
        deadline=exchanged(jnp.where(is_padding, jnp.inf, deadline)),
        service_time=exchanged(instance.service_time),
    )


def _partners(num_nodes: int) -> np.ndarray:
    """The other node of each request, `i64[N+1]`, N even or rounded down; the depot's is itself."""
    pairs = np.arange(1, num_nodes // 2 * 2 + 1).reshape(-1, 2)
    return np.concatenate([[0], pairs[:, ::-1].ravel()])
