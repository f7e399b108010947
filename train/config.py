"""What every run is made of: a frozen dataclass, every key with its sentence and its range."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from jaxvrp.fields import option


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Keys of every learner. Intervals are in updates."""

    env: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"name": "truck_drone"},
        metadata={"help": "environment: name, and any of its parameters (--env.num_drones 4)"},
    )
    seed: int = option(0, help="seed of everything drawn in training", minimum=0, maximum=2**32 - 1)
    num_seeds: int = option(1, help="independent trainings in one program, from keys of this one seed", minimum=1)
    total_steps: int = option(1_000_000, help="environment steps, of one seed", minimum=1)
    num_envs: int = option(256, help="environments played in parallel, of one seed", minimum=1)
    num_devices: int | None = option(None, help="devices to spread the environments over; null: all", minimum=1)
    log_interval: int = option(1, help="updates between two lines of metrics", minimum=1)
    eval_interval: int = option(10, help="updates between two evaluations", minimum=1)
    save_interval: int = option(10, help="updates between two checkpoints", minimum=1)
    eval_episodes: int = option(512, help="fixed instances that are evaluated", minimum=1)
    eval_env: dict[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={"help": "parameters of the environment that evaluation changes (--eval_env.max_steps 600)"},
    )
    eval_seed: int = option(1_000_003, help="seed of those instances", minimum=0, maximum=2**32 - 1)
    rollout_length: int = option(100, help="steps between two updates", minimum=1)
    gamma: float = option(0.99, help="discount", minimum=0, maximum=1)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update, of one seed."""
        return self.num_envs * self.rollout_length

    @property
    def num_updates(self) -> int:
        """Updates that make up `total_steps`, rounded up to whole chunks of `log_interval`."""
        return math.ceil(self.total_steps / (self.steps_per_update * self.log_interval)) * self.log_interval


def check_divides(name: str, value: int, by_name: str, by: int) -> None:
    """Raise a ValueError that names the nearest value that works, unless `by` divides `value`."""
    if value % by:
        nearest = max(round(value / by), 1) * by
        raise ValueError(f"{name} is {value}, which {by_name} ({by}) does not divide; take {nearest}, for example")
