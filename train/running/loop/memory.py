"""Whether memory holds what a run needs: told from types alone, before anything is made."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params

from jaxvrp.io.command_line import UserError
from jaxvrp.io.machine_memory import bytes_of, machine_bytes, refusal
from jaxvrp.randomized import unwrapped
from jaxvrp.testing import ConformanceError
from train.config import RunConfig
from train.running.command.prepare import evaluation_env
from train.running.loop.evaluator import Evaluator, evaluation_function, first_seed
from train.running.loop.learner import Learner
from train.running.loop.sizes import configuration_sizes, environment_sizes, fitting, is_large, to_blame

Make = Callable[[RunConfig], Learner]


def check_memory(learner: Learner, make: Make) -> None:
    """Refuse a run that needs more memory than there is.

    Args:
        learner: of the run.
        make: makes the learner of another configuration, to find one that fits.

    Raises:
        ValueError: one line with the size that is to blame, what is needed, what there is, and what would fit.
    """
    config = learner.config
    sizes = [*configuration_sizes(config), *environment_sizes(unwrapped(learner.env))]
    if not is_large(sizes):
        return
    available, needed = machine_bytes(config.num_devices or jax.device_count()), needed_bytes(learner)
    if needed <= available:
        return
    candidates = to_blame(sizes)
    for size in candidates:
        enough = fitting(size, needed, available, functools.partial(_needed_with, config, make, size.name))
        if enough:
            raise ValueError(refusal(size.name, size.value, needed, available, enough))
    raise ValueError(refusal(candidates[0].name, candidates[0].value, needed, available, None))


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


def _needed_with(config: RunConfig, make: Make, name: str, value: int) -> int | None:
    """What another value of a key needs; None if there can be no such run."""
    mapping, _, parameter = name.rpartition(".")
    changes = {"env": {**config.env, parameter: value}} if mapping else {name: value}
    try:
        return needed_bytes(make(dataclasses.replace(config, **changes)))
    except (ValueError, TypeError, ConformanceError):
        return None


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
    env = evaluation_env(learner.env, config)
    evaluator = Evaluator(env, config.eval_episodes, config.eval_seed, name="eval_episodes")

    def record(params: Any) -> Any:
        return evaluator.record(learner.actor(first_seed(learner, params), deterministic=True))

    evaluation = max(loop_bytes(evaluation_function(learner, evaluator), params), loop_bytes(record, params))
    return max(bytes_of(state) + evaluation, loop_bytes(learner.train_chunk, state))


def loop_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Bytes that the largest loop of a program reads, carries and writes, all devices together.

    Args:
        function: of arrays; is traced, and not run.
        arguments: arrays, or their shapes and dtypes.
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
