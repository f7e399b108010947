"""Whether memory holds what a run needs: told from types alone, before anything is made, with a size that would fit."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
from jax.extend.core import jaxprs_in_params

from jaxvrp import Environment, fields, registry
from jaxvrp.io.command_line import UserError
from jaxvrp.io.machine_memory import SAFETY, bytes_of, machine_bytes, refusal
from jaxvrp.randomized import unwrapped
from jaxvrp.testing import ConformanceError
from train.config import RunConfig
from train.running.loop.evaluator import Evaluator, evaluation_function, first_seed
from train.running.loop.learner import Learner

GROWTH = 50
"""Sizes that are, multiplied, not so many times the defaults are not asked for their memory: that takes seconds."""

NO_SIZES = frozenset(
    {"seed", "eval_seed", "board_seed", "total_steps", "target_exploration_steps", "random_steps", "randomize_steps"}
    | {"imitate_steps", "imitate_anneal_steps"}
    | {"eval_interval", "save_interval"}
)
"""Whole numbers on which no array depends."""

LEAST_EXPONENT = 0.1
"""Memory that grows more slowly with a size than with this power of it is not due to that size."""

Make = Callable[[RunConfig], Learner]

Need = Callable[[int], int | None]
"""Bytes that another value of a size takes at least; None if that value cannot be."""


class Size(NamedTuple):
    """A whole number of a configuration by its key, `"num_envs"` or `"env.num_drones"`; of a list, the largest."""

    name: str
    value: int
    default: int

    @property
    def growth(self) -> float:
        """How many times the default it is."""
        return self.value / max(self.default, 1)


def environment_sizes(env: Environment) -> Iterator[Size]:
    """The sizes among the parameters of an environment."""
    values = env.parameters
    for cls in (type(env), *registry.toolbox_of(env).parameters):
        yield from _sizes(cls, values, "env.")


def configuration_sizes(config: RunConfig) -> Iterator[Size]:
    """The sizes of a configuration, without those of its environment."""
    return _sizes(type(config), vars(config), "")


def _sizes(cls: Any, values: dict[str, Any], prefix: str) -> Iterator[Size]:
    for field in dataclasses.fields(cls):
        numbers = field.default if isinstance(field.default, tuple) else (field.default,)
        is_whole = bool(numbers) and all(type(number) is int for number in numbers)
        if "range" in field.metadata and is_whole and field.name not in NO_SIZES and field.name in values:
            value = values[field.name]
            largest = max(value, default=1) if isinstance(value, tuple) else value
            yield Size(prefix + field.name, largest, max(numbers, default=1))


def refuse(sizes: Iterable[Size], available: int, needed: int, need: Callable[[Size], Need]) -> None:
    """Refuse sizes that need more than is `available`, with the one that is to blame, and a value that would fit.

    Blamed is the first of which a value fits, of those that have grown beyond their defaults the most. `need` gives,
    for a size, the bytes that another value of it takes. Raises a ValueError of one line.
    """
    if needed <= available:
        return
    grown = sorted((size for size in sizes if size.growth > 1), key=lambda size: size.growth, reverse=True)
    for size in grown:
        if enough := fitting(size, needed, available, need(size)):
            raise ValueError(refusal(size.name, size.value, needed, available, enough))
    raise ValueError(refusal(grown[0].name, grown[0].value, needed, available, None))


def is_large(sizes: Iterable[Size]) -> bool:
    """Whether it is worth a look how much memory they take."""
    return math.prod(max(1.0, size.growth) for size in sizes) >= GROWTH


def fitting(size: Size, needed: int, available: int, need: Need) -> int | None:
    """A lower value of a size that fits well into memory, a power of two; None if none is found in a few attempts."""
    room = available / SAFETY
    for shrink in (2, 2**10, 2**20):
        smaller = _power_of_two(size.value / shrink)
        taken = need(smaller)
        if taken is not None:
            break
    else:
        return None
    exponent = math.log(needed / taken) / math.log(size.value / smaller)
    if exponent < LEAST_EXPONENT:
        return None
    for shrink in (1, 4, 16, 64):
        guess = _power_of_two(min(smaller, smaller * (room / taken) ** (1 / exponent)) / shrink)
        found = need(guess)
        if found is not None and found <= room:
            return guess
    return None


def _power_of_two(value: float) -> int:
    """The largest that is not above a value; at least 1."""
    return 1 << max(0, int(value).bit_length() - 1)


def check_environment(env: Environment) -> None:
    """Refuse an environment of which memory does not hold one; raises as `refuse`."""
    sizes = list(environment_sizes(env))
    if not is_large(sizes):
        return

    def needed(env: Environment) -> int:
        return bytes_of(jax.eval_shape(env.reset, jax.eval_shape(lambda: jax.random.key(0))))

    def need(size: Size) -> Need:
        name = size.name.removeprefix("env.")
        return _unless_refused(lambda value: needed(fields.replace(env, {name: value}, "parameter")))

    refuse(sizes, machine_bytes(), needed(env), need)


def check_memory(learner: Learner, make: Make) -> None:
    """Refuse a run that needs more memory than there is; raises as `refuse`.

    `make` makes the learner of another configuration, to find one that fits.
    """
    config = learner.config
    sizes = [*configuration_sizes(config), *environment_sizes(unwrapped(learner.env))]
    if not is_large(sizes):
        return

    def need(size: Size) -> Need:
        mapping, _, name = size.name.rpartition(".")

        def needed(value: int) -> int:
            changes = {"env": {**config.env, name: value}} if mapping else {name: value}
            return needed_bytes(make(dataclasses.replace(config, **changes)))

        return _unless_refused(needed)

    refuse(sizes, machine_bytes(config.num_devices or jax.device_count()), needed_bytes(learner), need)


def _unless_refused(needed: Callable[[int], int]) -> Need:
    """The same function; None where there can be no such size."""

    def need(value: int) -> int | None:
        try:
            return needed(value)
        except (ValueError, TypeError, ConformanceError):
            return None

    return need


@contextlib.contextmanager
def out_of_memory_told(folder: pathlib.Path) -> Iterator[None]:
    """What a device raises when it has no room left becomes a UserError; `folder` is that of the run."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise UserError(
            f"out of memory ({str(error).splitlines()[0][:200]}); lower num_envs or another size, and start anew; "
            f"{folder} keeps what was saved"
        ) from None


def needed_bytes(learner: Learner) -> int:
    """Bytes that training, evaluation and the recorded episode take at least, all devices together.

    A lower bound: the state of the run, and what the largest loop reads, carries and writes (the steps of a rollout,
    its minibatches, an episode's states). What a compiler keeps besides, such as activations and copies, is not
    counted: compiled programs took 1.0 (TD3) to 7 times as much (MAPPO), on a CPU.
    """
    config = learner.config
    key = jax.eval_shape(lambda: jax.random.key(config.seed))
    state = jax.eval_shape(learner.init, key)
    params = jax.eval_shape(learner.actor_params, state)
    evaluator = Evaluator(learner.evaluation_env, config.eval_episodes, config.eval_seed, name="eval_episodes")

    def record(params: Any) -> Any:
        return evaluator.record(learner.actor(first_seed(learner, params), deterministic=True))

    evaluation = max(loop_bytes(evaluation_function(learner, evaluator), params), loop_bytes(record, params))
    return max(bytes_of(state) + evaluation, loop_bytes(learner.train_chunk, state))


def loop_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Bytes that the largest loop of a program reads, carries and writes, all devices together.

    The function of arrays is traced, and not run; the arguments are arrays, or their shapes and dtypes.
    """
    return _largest_loop(jax.make_jaxpr(function)(*arguments).jaxpr)


def _largest_loop(jaxpr: Any) -> int:
    return max((_loop(equation) for equation in jaxpr.eqns), default=0)


def _loop(equation: Any) -> int:
    """Of one operation of a program, and of the programs in it; under `shard_map` each device has its own."""
    devices = equation.params["mesh"].size if equation.primitive.name == "shard_map" else 1
    inner = devices * max((_largest_loop(jaxpr) for jaxpr in jaxprs_in_params(equation.params)), default=0)
    if equation.primitive.name not in ("scan", "while"):
        return inner
    # What is carried is read and written in the same place.
    written = equation.outvars[equation.params.get("num_carry", len(equation.outvars)) :]
    arrays = [variable.aval for variable in (*equation.invars, *written)]
    return max(inner, sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays))
