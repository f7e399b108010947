"""Gymnasium's `Env` and `VectorEnv` over environments with one role: `pip install jaxvrp[gymnasium]`.

Example:

    import gymnasium
    import jaxvrp.adapters.gymnasium                                        # registers the ids

    env = gymnasium.make("jaxvrp/darp-v0", num_nodes=20, render_mode="rgb_array")
    observation, info = env.reset(seed=0)
    action = env.action_space.sample(info["action_mask"])
    observation, reward, terminated, truncated, info = env.step(action)

    envs = gymnasium.make_vec("jaxvrp/darp-v0", 1024, num_nodes=20)         # one compiled program for all
    observations, infos = envs.reset(seed=0)                                # f32[1024, ...]

Of an environment that is made already: `to_gymnasium(env)` and `to_gymnasium_vector(env, 1024)`.
"""

from jaxvrp.adapters.gymnasium.env import GymnasiumEnv, to_gymnasium
from jaxvrp.adapters.gymnasium.ids import make_env, make_vector_env, register_ids
from jaxvrp.adapters.gymnasium.vector import GymnasiumVectorEnv, to_gymnasium_vector

__all__ = [
    "GymnasiumEnv",
    "GymnasiumVectorEnv",
    "make_env",
    "make_vector_env",
    "register_ids",
    "to_gymnasium",
    "to_gymnasium_vector",
]

register_ids()
