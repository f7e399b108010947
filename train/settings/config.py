"""The keys of every run: a frozen dataclass; each key has its sentence and its range."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from jaxvrp.fields import option
from jaxvrp.io.limits import LARGEST_WHOLE


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Keys of every learner. Intervals are in updates."""

    # Values of keys while a checkpoint is read. Nothing in a checkpoint depends on these keys, and the machine that
    # reads it may have a single device.
    reading: ClassVar[dict[str, Any]] = {"num_devices": 1}
    # Values of keys while the policy plays in another environment, where the ranges of the training might not fit.
    playing: ClassVar[dict[str, Any]] = {"randomize": {}, "randomize_from": {}}
    # Keys that a compiled training takes as arguments: other values of them need no other program.
    arguments: ClassVar[tuple[str, ...]] = ("gamma",)

    env: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"name": "truck_drone"},
        metadata={
            "help": "the environment: its `name`, and any parameter of it (`--env.num_drones 4`)",
            "group": "environment",
        },
    )
    randomize: dict[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={
            "help": "parameters of the environment that are drawn anew for each episode of training, uniform in a "
            "range (`--randomize.battery_rate '[0.3, 1.2]'`)",
            "group": "environment",
        },
    )
    randomize_from: dict[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={
            "help": "ranges of some of these parameters at first; they move linearly to the ranges of `randomize` "
            "(`--randomize_from.battery_rate '[0.4, 0.6]'`)",
            "group": "environment",
        },
    )
    randomize_steps: int = option(
        1_000_000,
        help="environment steps (by events: decisions), of one seed, in which `randomize_from` moves to `randomize`",
        group="environment",
        minimum=1,
        maximum=10**11,
    )
    seed: int = option(
        0, help="seed of everything that is drawn in training", group="run", minimum=0, maximum=2**32 - 1
    )
    num_seeds: int = option(
        1, help="independent trainings in one program, of seeds split from `seed`", group="run", minimum=1
    )
    total_steps: int = option(
        1_000_000,
        help="environment steps (by events: decisions), of one seed; rounded up to whole chunks of `log_interval` "
        "updates",
        group="run",
        minimum=1,
        maximum=10**11,
    )
    num_envs: int = option(
        256, help="environments played in parallel, of one seed; spread over the devices", group="run", minimum=1
    )
    num_devices: int | None = option(
        None, help="devices to spread the environments over; null: all", group="run", minimum=1
    )
    log_interval: int = option(
        1,
        help="updates in one call of the compiled program, and between two lines of metrics",
        group="run",
        minimum=1,
    )
    eval_interval: int = option(
        10, help="updates between two evaluations; a multiple of `log_interval`", group="evaluation", minimum=1
    )
    save_interval: int = option(
        10, help="updates between two checkpoints; a multiple of `log_interval`", group="run", minimum=1
    )
    eval_episodes: int = option(512, help="fixed instances that are evaluated", group="evaluation", minimum=1)
    eval_env: dict[str, Any] = dataclasses.field(
        default_factory=dict,
        metadata={
            "help": "parameters of the environment that have other values in evaluation (`--eval_env.max_steps 600`)",
            "group": "evaluation",
        },
    )
    eval_seed: int = option(
        1_000_003,
        help="seed of the instances that are evaluated; not the training seed",
        group="evaluation",
        minimum=0,
        maximum=2**32 - 1,
    )
    logger: tuple[str, ...] = option(
        ("tensorboard",),
        help="where figures, pictures and the configuration are shown besides the files of the run: `tensorboard`, "
        "`wandb` (Weights & Biases, an extra), both, or `[]`",
        group="run",
        choices=("tensorboard", "wandb"),
    )
    pictures: bool = option(
        True, help="draw an episode of the finished policy, if the environment has a story or a view", group="run"
    )
    rollout_length: int = option(100, help="steps between two updates", group="run", minimum=1)
    gamma: float = option(0.99, help="discount", minimum=0, maximum=1)

    def check_fields(self) -> None:
        """Raise a ValueError for more steps than the counters hold; see `jaxvrp.fields.build`."""
        steps = self.num_updates * self.rollout_length
        if steps > LARGEST_WHOLE:
            raise ValueError(
                f"total_steps {self.total_steps} (num_envs {self.num_envs}, log_interval {self.log_interval}) makes "
                f"{steps} steps of each environment, and at most {LARGEST_WHOLE} can be counted; lower total_steps or "
                "log_interval"
            )

    def check_training(self) -> None:
        """Raise a ValueError for keys that a training needs otherwise; a run that is only read is not checked."""

    @property
    def numbers(self) -> dict[str, np.float32]:
        """The values of `arguments`, by key; a key that is null is part of the program."""
        values = {name: getattr(self, name) for name in self.arguments}
        return {name: np.float32(value) for name, value in values.items() if value is not None}

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update, of one seed."""
        return self.num_envs * self.rollout_length

    @property
    def num_updates(self) -> int:
        """Updates that make up `total_steps`, rounded up to whole chunks of `log_interval`."""
        return math.ceil(self.total_steps / (self.steps_per_update * self.log_interval)) * self.log_interval


def check_divides(config: RunConfig, name: str, divisor_name: str, divisor: int, *, devices: int = 1) -> None:
    """Check that the key `name` is a multiple of another key, `divisor_name`, times devices.

    `divisor` is the value of that key, as it is used (`num_devices` null means all).

    Raises:
        ValueError: it is not; the message names the nearest value that works, of the key that is not at its default.
    """
    value = getattr(config, name)
    if value % (divisor * devices) == 0:
        return
    multiple = max(round(value / (divisor * devices)), 1) * divisor * devices
    remedies = {name: f"{name} {multiple}"}
    if value % devices == 0:
        remedies[divisor_name] = f"{divisor_name} {nearest_divisor(value // devices, divisor)}"
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    changed = [remedy for key, remedy in remedies.items() if getattr(config, key) != defaults[key]]
    divided_by = "the number of devices" if divisor_name == "num_devices" else divisor_name
    times = f" times {devices} devices" if devices > 1 else ""
    raise ValueError(
        f"{name} is {value}, which {divided_by} ({divisor}{times}) does not divide; "
        f"take {' or '.join(changed or remedies.values())}"
    )


def nearest_divisor(value: int, wanted: int) -> int:
    """The divisor of `value` that is nearest to the one that was wanted."""
    return min((d for d in range(1, value + 1) if value % d == 0), key=lambda d: abs(d - wanted))
