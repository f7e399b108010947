"""The keys of MAPPO and IPPO."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxvrp.fields import option
from jaxvrp.io.messages import printable
from jaxvrp.policies.networks import NETWORKS, NetworkKeys
from train.settings.config import RunConfig

CRITIC = "what the critic sees: `central`, the global observation (MAPPO); `local`, the role's own observation (IPPO)"


@dataclasses.dataclass(frozen=True)
class PPOConfig(NetworkKeys, RunConfig):
    """Keys of MAPPO and IPPO."""

    # A policy that plays has no teacher.
    reading: ClassVar[dict[str, Any]] = {
        **RunConfig.reading,
        "imitate": None,
        "imitate_steps": 0,
        "imitate_coef": 0.0,
        "compare_steps": 0,
        "compare_roles": (),
    }
    playing: ClassVar[dict[str, Any]] = {
        **RunConfig.playing,
        "rollout": "continuing",
        "baseline": "critic",
        "group_size": 1,
    }
    arguments: ClassVar[tuple[str, ...]] = (
        *RunConfig.arguments,
        "gae_lambda",
        "clip_eps",
        "entropy_coef",
        "entropy_coef_end",
        "imitate_coef",
        "compare_temperature",
        "actor_lr",
        "critic_lr",
        "max_grad_norm",
    )

    critic: str = option("central", help=CRITIC, choices=("central", "local"))
    start_from: str | None = option(
        None,
        help="run folder (its latest checkpoint), or name of a shipped policy, from which the training starts; of the "
        "same network; with `attention` the sizes of the environment may differ",
        group="run",
    )
    stages: tuple[dict[str, Any], ...] = option(
        (),
        help="the keys that change in each stage of the training (`[{}, {actor_lr: 0.0003}]`; null takes a parameter "
        "out of `randomize`). A stage starts from the policy of the stage before. A typed key holds for all stages; "
        "`start_from` holds for the first",
        group="run",
    )
    chunk_length: int = option(
        10,
        help="length of the sequences that are learned from (`gru`); divides `rollout_length`",
        group="network",
        minimum=1,
    )
    imitate: str | None = option(
        None,
        help="a teacher: the name of a baseline or planner of the environment; agents play and learn the teacher's "
        "actions in the states that they reach (DAgger, Ross et al. 2011). A teacher that plans whole episodes "
        "(`search` of `darp`) plays them itself, for the whole training; this needs `rollout: episodes`",
        group="imitation",
    )
    imitate_steps: int = option(
        0,
        help="environment steps, as of `total_steps`, in which the policy learns from the teacher alone",
        group="imitation",
        minimum=0,
        maximum=10**11,
    )
    imitate_coef: float = option(
        0.0,
        help="weight of the teacher beside the reward afterwards; falls linearly to 0 in `imitate_anneal_steps`",
        group="imitation",
        minimum=0,
    )
    imitate_anneal_steps: int = option(
        1_000_000,
        help="environment steps, likewise, after `imitate_steps` in which the teacher's weight falls to 0",
        group="imitation",
        minimum=1,
        maximum=10**11,
    )
    compare_steps: int = option(
        0,
        help="steps for which the teacher plays on after its action, and after another one; the policy learns what the "
        "other one gains (AggreVaTe, Ross & Bagnell 2014). 0: it learns the teacher's action",
        group="imitation",
        minimum=0,
    )
    compare_roles: tuple[str, ...] = option(
        (), help="roles that learn so; others learn the teacher's actions. `[]`: all", group="imitation"
    )
    compare_temperature: float = option(
        0.1, help="gain that makes an action e times as likely", group="imitation", above=0
    )
    rollout: str = option(
        "continuing",
        help="`continuing`: episodes go on from one rollout to the next; `episodes`: a rollout is one whole episode of "
        "every environment; `rollout_length` is then at least the longest episode",
        choices=("continuing", "episodes"),
    )
    baseline: str = option(
        "critic",
        help="what returns are compared with: `critic`, values (GAE); `group`, the mean of `group_size` episodes of "
        "the same instance, without a critic",
        choices=("critic", "group"),
    )
    group_size: int = option(
        1,
        help="environments that play the same instance at once, with `rollout: continuing` only where the "
        "instance alone decides how many steps an episode has; with a critic, the mean of the others' advantages at "
        "the same step is subtracted; times devices, divides `num_envs`",
        minimum=1,
    )
    num_epochs: int = option(4, help="passes over a rollout", minimum=1)
    num_minibatches: int = option(
        4,
        help="minibatches of a pass, each of some environments; times devices, divides `num_envs`",
        minimum=1,
    )
    gae_lambda: float = option(0.95, help="trace decay of the advantages (Schulman et al. 2016)", minimum=0, maximum=1)
    clip_eps: float = option(0.2, help="clip range of the ratio (Schulman et al. 2017), and of the values", above=0)
    entropy_coef: float = option(0.01, help="weight of the entropy bonus", minimum=0)
    entropy_coef_end: float | None = option(
        None, help="weight of the entropy bonus at the end of the training, reached linearly; null: constant", minimum=0
    )
    actor_lr: float = option(1e-3, help="learning rate of the actors", above=0)
    critic_lr: float = option(1e-3, help="learning rate of the critic", above=0)
    lr_decay: bool = option(True, help="let both learning rates fall linearly to 0")
    max_grad_norm: float = option(0.5, help="clip the norm of each network's gradient to this", above=0)
    value_norm: bool = option(True, help="normalise the returns that the critic learns (ValueNorm of MAPPO)")
    normalize_advantage: bool = option(
        True, help="normalise the advantages per role, over real decisions (more than one legal action)"
    )

    def check_fields(self) -> None:
        """Refuse keys that do not fit each other, with a ValueError; see `jaxvrp.fields.build`."""
        super().check_fields()
        if self.baseline != "critic" and self.rollout != "episodes":
            raise ValueError(f"baseline is '{self.baseline}', which needs whole episodes; set rollout to 'episodes'")
        lessons = [name for name in ("imitate_steps", "imitate_coef", "compare_steps") if getattr(self, name)]
        if self.imitate is None and lessons:
            raise ValueError(
                f"{lessons[0]} is {getattr(self, lessons[0])}, but imitate names no teacher; set imitate to a baseline "
                f"of the environment, or leave out {' and '.join(lessons)}"
            )
        if self.imitate is not None and not (self.imitate_steps or self.imitate_coef):
            raise ValueError(
                f"imitate is '{printable(self.imitate, 200)}', but imitate_steps and imitate_coef are 0, so that no "
                "teacher counts; set one of them, or leave out imitate"
            )
        if self.compare_roles and not self.compare_steps:
            raise ValueError(
                f"compare_roles is {list(self.compare_roles)}, but compare_steps is 0, so that nothing is compared; "
                "set compare_steps, or leave out compare_roles"
            )
        if self.compare_steps and not self.is_taught_throughout:
            raise ValueError(
                f"compare_steps is {self.compare_steps}, which needs a teacher to the end of the training; set "
                f"imitate_steps to {self.total_steps} (total_steps): another stage can go on by the reward"
            )

    def check_training(self) -> None:
        """See `RunConfig.check_training`: `reading` removes the teacher, so only a training needs these keys."""
        if self.baseline == "group" and self.group_size < 2 and not self.is_taught_throughout:
            raise ValueError(
                "baseline is 'group', which compares episodes; set group_size to 2 or more, or let a teacher alone "
                "teach (imitate, and imitate_steps as many as total_steps)"
            )

    @property
    def is_taught_throughout(self) -> bool:
        """Whether the policy learns from a teacher alone, in every update."""
        return self.imitate is not None and self.imitate_steps >= self.total_steps

    @property
    def sequence_length(self) -> int:
        """Length of the sequences of a minibatch: whole rollouts where there is no memory."""
        return self.chunk_length if NETWORKS[self.network].has_memory else self.rollout_length


@dataclasses.dataclass(frozen=True)
class IPPOConfig(PPOConfig):
    """IPPO is MAPPO with a critic per role, on the observation of the role."""

    critic: str = option("local", help=CRITIC, choices=("local", "central"))
