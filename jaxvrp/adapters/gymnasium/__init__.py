"""Gymnasium's `Env` and `VectorEnv` over environments with one role: the extra `gymnasium`.

Importing it registers an id for each of them: `gymnasium.make("jaxvrp/darp-v0", num_nodes=20)`.
"""

from __future__ import annotations

import re
from typing import Any

from jaxvrp import registry
from jaxvrp.adapters.gymnasium.env import GymnasiumEnv, gymnasium, to_gymnasium
from jaxvrp.adapters.gymnasium.vector import AutoresetMode, GymnasiumVectorEnv, to_gymnasium_vector

__all__ = [
    "GymnasiumEnv",
    "GymnasiumVectorEnv",
    "make_env",
    "make_vector_env",
    "register_ids",
    "to_gymnasium",
    "to_gymnasium_vector",
]


def register_ids() -> tuple[str, ...]:
    """Register an id for each environment and scenario with one role that has none yet, and return the ids.

    Done when `jaxvrp.adapters.gymnasium` is imported; again after `jaxvrp.register` of an environment of one's own.
    Names that an id cannot hold (with spaces, say) get none, and neither do environments with several roles, which
    Gymnasium cannot play: they are for PettingZoo.
    """
    names = [name for name in registry.registered() if re.fullmatch(r"[\w.-]+", name) and registry.has_one_role(name)]
    ids = {f"jaxvrp/{name}-v0": {"environment": name} for name in names}
    for name, scenario in registry.scenarios_with_one_role():
        ids[f"jaxvrp/{name}_{scenario}-v0"] = {"environment": name, "scenario": scenario}
    for identifier, parameters in ids.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(
                identifier,
                entry_point="jaxvrp.adapters.gymnasium:make_env",
                vector_entry_point="jaxvrp.adapters.gymnasium:make_vector_env",
                kwargs=parameters,
            )
    return tuple(ids)


def make_env(
    environment: str, *, mask_in_observation: bool = False, render_mode: str | None = None, **parameters: Any
) -> GymnasiumEnv:
    """`to_gymnasium(jaxvrp.make(environment, **parameters), ...)`, for `gymnasium.make`.

    Raises:
        ValueError, TypeError: as those two.
        TypeError: `frameskip`, with which TorchRL's `GymEnv` tries every id; at these words it leaves it out.
    """
    if "frameskip" in parameters:
        raise TypeError("make_env() got an unexpected keyword argument 'frameskip'; wrap the environment to skip steps")
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
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **parameters: Any,
) -> GymnasiumVectorEnv:
    """`to_gymnasium_vector(jaxvrp.make(environment, **parameters), num_envs, ...)`, for `gymnasium.make_vec`."""
    env = registry.make(environment, **parameters)
    return to_gymnasium_vector(
        env,
        num_envs,
        autoreset_mode=autoreset_mode,
        mask_in_observation=mask_in_observation,
        render_mode=render_mode,
    )


register_ids()
