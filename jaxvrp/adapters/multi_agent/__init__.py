"""The list API that many truck-and-drones codes are written against: `pip install jaxvrp[gymnasium]`.

Example:

    from jaxvrp.adapters.multi_agent import VRPEnv

    env = VRPEnv(args)                                   # args.num_drones, args.num_customers, ..., args.seed
    obs_n, done_n = env.reset(), [False]                 # lists with one entry for each agent, truck first
    while not all(done_n):
        masks = [info["available_actions"] for info in env.infos]
        actions = [np.random.choice(np.flatnonzero(mask)) for mask in masks]        # or one-hot rows
        obs_n, reward_n, done_n, info_n = env.step(actions)

Several at once, in this process or in others, are `VRPDummyVecEnv` and `VRPSubprocVecEnv`: `vector.py`.
"""

from jaxvrp.adapters.multi_agent.env import VRPEnv
from jaxvrp.adapters.multi_agent.vector import VRPDummyVecEnv, VRPSubprocVecEnv

__all__ = ["VRPDummyVecEnv", "VRPEnv", "VRPSubprocVecEnv"]
