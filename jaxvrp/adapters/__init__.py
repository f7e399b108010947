"""The environments as other suites expect them. Each module is imported by its name, and needs an optional extra.

Example:

    from jaxvrp.adapters.gymnasium import to_gymnasium, to_gymnasium_vector     # pip install jaxvrp[gymnasium]
    from jaxvrp.adapters.pettingzoo import to_pettingzoo                        # pip install jaxvrp[pettingzoo]
    from jaxvrp.adapters.multi_agent import VRPEnv, VRPSubprocVecEnv            # pip install jaxvrp[gymnasium]
    from jaxvrp.adapters.jaxmarl import to_jaxmarl                              # pip install jaxvrp[jaxmarl]
    from jaxvrp.adapters.gymnax import to_gymnax                                # pip install jaxvrp[gymnax]
"""
