"""A trained policy that chooses actions from states: for one state or a batch, by one function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.environment import Environment, State
from jaxvrp.io.messages import cut
from jaxvrp.io.states import by_place, shapes_of
from jaxvrp.policies.actors import Actors, Params, Seen
from jaxvrp.policies.choice import likeliest_actions, masked_logits, sample_actions
from jaxvrp.spaces import ByRole

Memory = Any
"""What a policy remembers of an episode, any pytree."""

Decide = Callable[[Memory, State], tuple[ByRole, Memory]]
"""From memories and states `[B, ...]` to masked logits `{role: f32[B, agents, actions]}`, and the memories after."""


class Policy:
    """A trained policy.

    Attributes:
        env: the environment that it plays.
        about: a sentence about it.
        has_memory: whether it remembers what it saw before in an episode, so that `step` plays it and `act` does not.
    """

    def __init__(self, env: Environment, decide: Decide, initial_memory: Callable[[int], Memory], about: str = ""):
        """`decide` is a pytree (`jax.tree_util.Partial`); `initial_memory` makes memories `[B, ...]`."""
        self.env, self.decide, self.about, self._initial_memory = env, decide, about, initial_memory
        self.has_memory = bool(jax.tree.leaves(jax.eval_shape(lambda: initial_memory(1))))

    @functools.cached_property
    def state(self) -> State:
        """Shapes and dtypes of one state, as `jax.ShapeDtypeStruct`."""
        return shapes_of(self.env)

    def memory(self, batch: int | None = None) -> Memory:
        """What it remembers at the beginning of an episode; with a leading axis for a `batch` of them."""
        return self._initial_memory(batch) if batch else jax.tree.map(lambda leaf: leaf[0], self._initial_memory(1))

    def act(self, state: State, key: jax.Array | None = None) -> ByRole:
        """The most probable actions, `{role: i32[agents]}`, or samples, if there is a `key`.

        With states `[B, ...]`, actions `[B, agents]`. It may be called within `jit`.

        Raises:
            ValueError: the states are not those of `env`, or the policy has a memory.
        """
        if self.has_memory:
            raise ValueError("this policy has a memory; play it by step(memory, state), from memory() on")
        return self.step(self.memory(), state, key)[0]

    def step(self, memory: Memory, state: State, key: jax.Array | None = None) -> tuple[ByRole, Memory]:
        """As `act`, with what it remembered before the state, from `memory` on; and what it remembers after it."""
        return _step(self.decide, memory, state, key, single=self._is_single(state))

    def _is_single(self, state: State) -> bool:
        """Whether it is one state, not a batch."""
        wanted, leaves = jax.tree.leaves(self.state), jax.tree.leaves(state)
        structure: Any = jax.tree.structure(self.state)
        batches = [(), *sorted({jnp.shape(leaf)[:1] for leaf in leaves} - {()})]
        if structure == jax.tree.structure(state):
            for batch in batches:
                if not _misfits(leaves, wanted, batch):
                    return not batch
        text = "this is neither a state of policy.env nor a batch of them"
        raise ValueError(f"{text}{self._difference(state, batches)}; give what its reset gives")

    def _difference(self, state: State, batches: list[tuple[int, ...]]) -> str:
        """What is wrong with something that is no state: the first array that is missing, unknown or of another kind.

        It is compared with one state, or with that of the batches which it comes nearest.
        """
        wanted, given = by_place(self.state), by_place(state)
        for name in {**wanted, **given}:
            if name not in given or name not in wanted:
                return f": it has no {name}" if name in wanted else f": no state has {cut(name)}"
        names, leaves = list(wanted), [given[name] for name in wanted]
        found = {batch: _misfits(leaves, list(wanted.values()), batch) for batch in batches}
        batch = min(found, key=lambda batch: len(found[batch]))
        if not found[batch]:
            return ""
        name = names[found[batch][0]]
        leaf, like = given[name], wanted[name]
        return f": {name} is {_dtype(leaf)}{list(jnp.shape(leaf))}, and needs {like.dtype}{[*batch, *like.shape]}"


def _misfits(leaves: list[Any], wanted: list[Any], batch: tuple[int, ...]) -> list[int]:
    """Which leaves have another shape or dtype than `wanted` with the leading axes `batch`."""
    return [
        number
        for number, (leaf, like) in enumerate(zip(leaves, wanted, strict=True))
        if jnp.shape(leaf) != (*batch, *like.shape) or _computed(_dtype(leaf)) != like.dtype
    ]


def _dtype(leaf: Any) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _computed(dtype: Any) -> Any:
    """As JAX computes with it: without 64 bits, `float64` is taken as `float32`."""
    is_number = getattr(dtype, "kind", "V") in "biuf"  # others: typed keys, texts
    return jax.dtypes.canonicalize_dtype(dtype) if is_number else dtype


@functools.partial(jax.jit, static_argnames="single")
def _step(
    decide: Decide, memory: Memory, state: State, key: jax.Array | None, *, single: bool
) -> tuple[ByRole, Memory]:
    if single:
        actions, memory = _step(decide, *jax.tree.map(lambda leaf: leaf[None], (memory, state)), key, single=False)
        return jax.tree.map(lambda leaf: leaf[0], (actions, memory))
    logits, memory = decide(memory, state)
    legal = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, bool), logits)  # as far as the mask in them allows
    return likeliest_actions(logits, legal) if key is None else sample_actions(key, logits, legal), memory


def of_networks(env: Environment, actors: Actors, params: Params, about: str) -> Policy:
    """The policy of trained actors."""
    return Policy(
        env, jax.tree_util.Partial(functools.partial(_decide, env, actors), params), actors.initial_carry, about
    )


def _decide(env: Environment, actors: Actors, params: Params, memory: Memory, state: State) -> tuple[ByRole, Memory]:
    seen, mask = jax.vmap(lambda state: (Seen.in_state(env, state), env.action_mask(state)))(state)
    seen = actors.encode(params, jax.tree.map(lambda leaf: leaf[None], seen))
    reset = jnp.zeros((1, *next(iter(mask.values())).shape[:1]), bool)
    logits, memory = actors.apply(params, seen, memory, reset)
    return {role: masked_logits(logit[0], mask[role]) for role, logit in logits.items()}, memory
