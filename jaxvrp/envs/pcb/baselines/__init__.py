"""What learned policies are compared with: annealing, and random placements without overlap."""

from jaxvrp.envs.pcb.baselines.annealing import BestPlacements, anneal, net_widths
from jaxvrp.envs.pcb.baselines.random_placement import random_legal

__all__ = ["BestPlacements", "anneal", "net_widths", "random_legal"]
