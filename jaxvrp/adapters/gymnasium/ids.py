"""Ids for `gymnasium.make`: `jaxvrp/darp-v0` and one for every other registered environment with one role."""

from __future__ import annotations

import re
from typing import Any

import gymnasium

from jaxvrp import registry
from jaxvrp.adapters.gymnasium.env import GymnasiumEnv, to_gymnasium
from jaxvrp.adapters.gymnasium.vector import GymnasiumVectorEnv, to_gymnasium_vector

NAMESPACE, VERSION = "jaxvrp", 0

HERE = "jaxvrp.adapters.gymnasium"


def register_ids() -> tuple[str, ...]:
    """Register an id for each environment with one role that has none yet, and return the ids.

    Done when `jaxvrp.adapters.gymnasium` is imported; again after `jaxvrp.register` of an environment of one's own.
    Names that an id cannot hold (with spaces, say) get none, and neither do environments with several roles, which
    Gymnasium cannot play: they are for PettingZoo.
    """
    names = [name for name in registry.registered() if re.fullmatch(r"[\w.-]+", name) and registry.has_one_role(name)]
    for name in names:
        if _id(name) not in gymnasium.registry:
            gymnasium.register(
                _id(name),
                entry_point=f"{HERE}:{make_env.__name__}",
                vector_entry_point=f"{HERE}:{make_vector_env.__name__}",
                kwargs={"environment": name},
            )
    return tuple(map(_id, names))


def _id(name: str) -> str:
    return f"{NAMESPACE}/{name}-v{VERSION}"


def make_env(
    environment: str, *, mask_in_observation: bool = False, render_mode: str | None = None, **parameters: Any
) -> GymnasiumEnv:
    """What `gymnasium.make` calls: `to_gymnasium(jaxvrp.make(environment, **parameters), ...)`.

    Raises:
        ValueError, TypeError: as either of them.
    """
    env = registry.make(environment, **parameters)
    return to_gymnasium(env, mask_in_observation=mask_in_observation, render_mode=render_mode)


# Where Gymnasium looks for what it can wrap: "human" and "rgb_array_list" are made from these modes.
make_env.metadata = GymnasiumEnv.metadata  # type: ignore[attr-defined]


def make_vector_env(
    environment: str,
    num_envs: int,
    *,
    mask_in_observation: bool = False,
    render_mode: str | None = None,
    autoreset_mode: gymnasium.vector.AutoresetMode | str = "SameStep",
    **parameters: Any,
) -> GymnasiumVectorEnv:
    """What `gymnasium.make_vec` calls: `to_gymnasium_vector(jaxvrp.make(environment, **parameters), num_envs, ...)`.

    Raises:
        ValueError, TypeError: as either of them.
    """
    env = registry.make(environment, **parameters)
    return to_gymnasium_vector(
        env,
        num_envs,
        autoreset_mode=autoreset_mode,
        mask_in_observation=mask_in_observation,
        render_mode=render_mode,
    )
