"""The list API that many truck-and-drones codes are written against: the extra `gymnasium`.

Several at once, in this process or in others, are `VRPDummyVecEnv` and `VRPSubprocVecEnv`: `vector.py`.
"""

from jaxvrp.adapters.multi_agent.env import VRPEnv
from jaxvrp.adapters.multi_agent.vector import VRPDummyVecEnv, VRPSubprocVecEnv

__all__ = ["VRPDummyVecEnv", "VRPEnv", "VRPSubprocVecEnv"]
