"""`gymnasium.vector.VectorEnv` over a batch of environments with one role, stepped by one compiled program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from jaxvrp.adapters.common import check_begun, check_render_mode, draw_frame, given_instance, render_metadata
from jaxvrp.adapters.gymnasium.env import Face
from jaxvrp.adapters.host import draw_seed
from jaxvrp.entities import seen_as
from jaxvrp.environment import Environment, Instance
from jaxvrp.io.messages import shown
from jaxvrp.vectorize import VecEnv, VecState, VecTimeStep

RESET_MASK = "reset_mask"
"""Gymnasium's option of `reset`: which environments begin anew."""

SHARE = 8
"""Episodes are begun anew by the eighth part of a batch at a time: rarely do more end in one step."""


class GymnasiumVectorEnv(VectorEnv):
    """A `gymnasium.vector.VectorEnv` of `num_envs` copies of `to_gymnasium(env)`, stepped by one compiled program.

    It plays what `gymnasium.vector.SyncVectorEnv` of such copies plays, seed by seed: each environment draws its
    problems from a generator of its own. `infos` have a row for each environment of the infos of `to_gymnasium`, and
    `episode_return`, `episode_length` so far.

    Args:
        env: an environment with one role.
        num_envs: E.
        autoreset_mode: when an environment whose episode has ended begins anew. `SAME_STEP`: at once; observation and
            infos are those of the new episode, `infos["final_obs"]` and `infos["final_info"]` those of the old.
            `NEXT_STEP`: with the step that follows, whose action is ignored and whose reward is 0. `DISABLED`: by
            `reset(options={"reset_mask": bool[E]})`, before it is stepped again.
        mask_in_observation, render_mode: as in `to_gymnasium`.

    Attributes:
        autoreset_mode: see above.

    Raises:
        ValueError: there are several roles, or no environments; another mode.
        TypeError: `num_envs` is no whole number.
    """

    def __init__(
        self,
        env: Environment,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        mask_in_observation: bool = False,
        render_mode: str | None = None,
    ):
        env = seen_as(env, "flat")
        check_render_mode(env, render_mode)
        self.autoreset_mode = _mode(autoreset_mode)
        self.metadata = {**render_metadata(env), "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self._vec = VecEnv(jax.device_put(env), num_envs, auto_reset=False)
        self._face = Face(env, mask_in_observation, (num_envs,))
        self.num_envs = num_envs
        self._state: VecState | None = None
        self._seeds: dict[int, int] = {}
        self._randoms: dict[int, np.random.Generator] = {}
        self._ended = np.zeros(num_envs, bool)
        self._seen: VecTimeStep | None = None
        self.single_action_space = self._face.action_space
        self.single_observation_space = self._face.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    @property  # type: ignore[misc]  # other generators come from other seeds
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]  # as of SyncVectorEnv
        """The generators, one for each environment."""
        self._seed([None] * self.num_envs)
        return tuple(self._randoms.values())

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """What they were seeded with."""
        self._seed([None] * self.num_envs)
        return tuple(self._seeds.values())

    def reset(
        self, *, seed: int | Iterable[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Problems for all environments, or for some.

        Args:
            seed: one for each environment, from which all its problems follow; a number stands for `seed`, `seed + 1`,
                ...; where it is None, an environment goes on drawing.
            options: `{"reset_mask": bool[E]}` resets only where it holds, seeds included; infos are marked there.
                `{"instance": problems}`, with a leading axis `[E]`, plays those instead of fresh ones.

        Raises:
            ValueError, TypeError: another number of seeds, another option, a mask or problems of the wrong kind.
            RuntimeError: a mask before the first reset.
        """
        instances = given_instance(self._vec.env, options, further=[RESET_MASK], batch=self.num_envs)
        chosen = self._chosen(options)
        seeds = self._of_environments(seed)
        self._seed([each if is_chosen else None for each, is_chosen in zip(seeds, chosen, strict=True)])
        self._begin(np.flatnonzero(chosen), instances)
        self._ended = self._ended & ~chosen
        assert self._seen is not None, "`_begin` has just filled it"
        return self._face.observe(_copied(self._seen)), _marked(self._face.info(_copied(self._seen)), chosen)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, Any, Any, dict[str, Any]]:
        """Play one step everywhere: observations, rewards `f64[E]`, terminations, truncations `bool[E]`, infos.

        Raises:
            RuntimeError: there was no `reset`, or without auto-reset an environment has not been reset since its end.
            ValueError, TypeError: actions of the wrong shape or dtype.
        """
        check_begun(self._state, "step")
        joined = self._face.action(actions)
        waiting = self._ended
        if self.autoreset_mode is AutoresetMode.DISABLED and waiting.any():
            text = f"the episodes of the environments {np.flatnonzero(waiting).tolist()} are over"
            raise RuntimeError(f"{text}; begin anew with reset(options={{'{RESET_MASK}': terminations | truncations}})")
        # An episode that has ended stands still, and is paid 0, whatever its action.
        self._state, timestep = _step(self._vec, self._state, joined)
        self._seen = ended = _to_numpy(timestep)
        rewards = self._face.reward(ended)
        terminations, truncations = np.asarray(ended.terminated & ~waiting), np.asarray(ended.truncated & ~waiting)
        self._ended = terminations | truncations
        final = self._final(ended, self._ended)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._begin(np.flatnonzero(self._ended))
            self._ended = np.zeros(self.num_envs, bool)
        elif self.autoreset_mode is AutoresetMode.NEXT_STEP:
            self._begin(np.flatnonzero(waiting))
        assert self._seen is not None, "it was filled above"
        infos = _marked(self._face.info(_copied(self._seen)), np.ones(self.num_envs, bool))
        return self._face.observe(_copied(self._seen)), rewards, terminations, truncations, {**infos, **final}

    def render(self) -> tuple[np.ndarray, ...] | None:
        """`u8[height, width, 3]` for each environment; None without a `render_mode`."""
        if self.render_mode is None:
            return None
        check_begun(self._state, "render")
        assert self._state is not None
        states = self._state.env
        return tuple(
            draw_frame(self._vec.env, jax.tree.map(lambda leaf, row=row: leaf[row], states))
            for row in range(self.num_envs)
        )

    def _chosen(self, options: dict[str, Any] | None) -> np.ndarray:
        """`bool[E]`, the environments to be reset."""
        mask = (options or {}).get(RESET_MASK)
        if mask is None:
            return np.ones(self.num_envs, bool)
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['{RESET_MASK}'] needs to be an array of bool of shape ({self.num_envs},), True at least once"
            )
        if self._state is None and not mask.all():
            raise RuntimeError(f"reset got a '{RESET_MASK}' before the first reset of all; call reset() first")
        return mask

    def _of_environments(self, seed: int | Iterable[int | None] | None) -> list[int | None]:
        """One for each environment, as `SyncVectorEnv` understands what a caller passes."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + rank for rank in range(self.num_envs)]
        given = list(seed) if isinstance(seed, Iterable) else [seed]
        if not all(isinstance(each, int | np.integer | None) for each in given):
            raise TypeError(f"seed is {seed!r}; it needs to be a whole number, a list of them, or None")
        if len(given) != self.num_envs:
            raise ValueError(f"seed lists {len(given)} numbers; it needs {self.num_envs}, one for each environment")
        return [None if each is None else int(each) for each in given]

    def _seed(self, seeds: list[int | None]) -> None:
        """New generators where there is a seed, and where there was none yet."""
        for rank, seed in enumerate(seeds):
            if rank not in self._randoms or seed is not None:
                self._randoms[rank], self._seeds[rank] = seeding.np_random(seed)

    def _begin(self, ranks: np.ndarray, instances: Instance | None = None) -> None:
        """Begin anew with these environments, on the given problems, or on fresh ones."""
        # Drawn for given problems as well, like the `Host` of one environment.
        seeds = np.array([draw_seed(self._randoms[rank]) for rank in ranks], np.uint32)
        if self._state is None:
            given = _generate(self._vec, seeds) if instances is None else instances
            self._state, timestep = _reset_to(self._vec, given)
            self._seen = _to_numpy(timestep)
            return
        size = max(1, self.num_envs // SHARE)
        for start in range(0, len(ranks), size):
            rows = ranks[start : start + size]
            # A row that no environment has is written nowhere: programs have fixed shapes.
            padded = np.append(rows, np.full(size - len(rows), self.num_envs)).astype(np.int32)
            drawn = np.resize(seeds[start : start + size], size)
            given = jax.tree.map(lambda leaf, padded=padded: leaf[padded % len(leaf)], instances)
            self._state, timestep = _renew(self._vec, self._state, padded, drawn, given)
            for seen, fresh in zip(jax.tree.leaves(self._seen), jax.tree.leaves(_to_numpy(timestep)), strict=True):
                seen[rows] = fresh[: len(rows)]

    def _final(self, timestep: VecTimeStep, done: np.ndarray) -> dict[str, Any]:
        """The last observations and infos of the episodes that ended, in the rows of their environments."""
        if self.autoreset_mode is not AutoresetMode.SAME_STEP or not done.any():
            return {}
        seen, final = self._face.observe(_copied(timestep)), np.full(self.num_envs, None, object)
        for rank in np.flatnonzero(done):
            final[rank] = jax.tree.map(lambda rows, rank=rank: rows[rank], seen)
        info = _marked(self._face.info(_copied(timestep)), done)
        return _marked({"final_obs": final, "final_info": info}, done)


to_gymnasium_vector = GymnasiumVectorEnv


def _mode(given: Any) -> AutoresetMode:
    try:
        return AutoresetMode(given)
    except ValueError:
        modes = ", ".join(mode.value for mode in AutoresetMode)
        raise ValueError(f"autoreset_mode is {shown(given)}; it must be one of: {modes}") from None


def _marked(values: dict[str, Any], present: np.ndarray) -> dict[str, Any]:
    """Each with the mask of the environments that it belongs to beside it, under `_` and its name."""
    return {**values, **{f"_{name}": present.copy() for name in values}}


def _to_numpy(timestep: VecTimeStep) -> VecTimeStep:
    """All leaves at once, writable (those of JAX are not, which other libraries warn about)."""
    return jax.tree.map(np.array, jax.device_get(timestep))


def _copied(timestep: VecTimeStep) -> VecTimeStep:
    """What is handed out belongs to the caller."""
    return jax.tree.map(np.copy, timestep)


@jax.jit
def _generate(vec: VecEnv, seeds: jax.Array) -> Instance:
    return jax.vmap(lambda seed: vec.env.generate(jax.random.key(seed)))(seeds)


@jax.jit
def _reset_to(vec: VecEnv, instances: Instance) -> tuple[VecState, VecTimeStep]:
    # Nothing is drawn: this batch is reset from here.
    return vec.reset_to(instances, jax.random.key(0))


@jax.jit
def _step(vec: VecEnv, state: VecState, action: dict[str, jax.Array]) -> tuple[VecState, VecTimeStep]:
    return vec.step(state, action)


@jax.jit
def _renew(
    vec: VecEnv, state: VecState, rows: jax.Array, seeds: jax.Array, instances: Instance | None
) -> tuple[VecState, VecTimeStep]:
    """The environments `rows` at the beginning of another episode, and their timestep `[rows, ...]`.

    `Environment.memory` is left out, as in `Host`: all follows from a seed.
    """
    if instances is None:
        instances = _generate(vec, seeds)
    part = vec.replace(num_envs=rows.shape[0])
    fresh, timestep = part.reset_to(instances, jax.random.key(0))

    def put(all_rows: jax.Array, new: jax.Array) -> jax.Array:
        return all_rows.at[rows].set(new, mode="drop")

    names = ("env", "action_mask", "valid", "episode_return", "episode_length")
    renewed = {name: jax.tree.map(put, getattr(state, name), getattr(fresh, name)) for name in names}
    return state.replace(**renewed), timestep
