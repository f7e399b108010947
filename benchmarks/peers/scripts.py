"""JaxMARL's learners as they are published: scripts of a clone of github.com/FLAIROx/JaxMARL, loaded and not changed.

Its wheel has environments alone. A script reads its settings from a file beside it by Hydra, and logs to Weights &
Biases from within every update; both are stood in for here, so that settings come from the caller, and logs go there.
So is the environment, where its learner trains on one of ours.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxvrp.io.yaml_text import read_yaml

Log = Callable[[Mapping[str, Any]], None]


def published(clone: pathlib.Path, config: str) -> dict[str, Any]:
    """The settings of a script, from a file below `baselines`."""
    return read_yaml(clone / "baselines" / config)


def commit_of(clone: pathlib.Path) -> str:
    """The commit of a clone; "unknown" if it is none."""
    words = ["git", "-C", str(clone), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def loaded(clone: pathlib.Path, script: str, log: Log, env: Any = None) -> Any:
    """The module that a script below `baselines` is; `log` gets what each update of its trainings says.

    `env`: an environment with the functions of JaxMARL's, which a script for SMAX then trains on instead.
    """
    spec = importlib.util.spec_from_file_location(pathlib.Path(script).stem, clone / "baselines" / script)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    with _stand_ins(log):
        spec.loader.exec_module(module)
    if hasattr(module, "jaxmarl"):
        module.jaxmarl = types.SimpleNamespace(make=_made)
    if env is not None:
        module.map_name_to_scenario, module.HeuristicEnemySMAX = str, lambda **parameters: env
    return module


@contextlib.contextmanager
def _stand_ins(log: Log) -> Iterator[None]:
    """Modules that scripts import, and that a training needs nothing of but `wandb.log`."""
    names = ("hydra", "omegaconf", "wandb")
    before = {name: sys.modules.get(name) for name in names}
    hydra, omegaconf, wandb = (types.ModuleType(name) for name in names)
    vars(hydra)["main"] = lambda **options: lambda main: main
    vars(omegaconf)["OmegaConf"] = None
    vars(wandb)["log"] = log
    sys.modules.update({"hydra": hydra, "omegaconf": omegaconf, "wandb": wandb})
    try:
        yield
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def _made(name: str, **parameters: Any) -> Any:
    import jaxmarl

    env: Any = jaxmarl.make(name, **parameters)
    spaces = {(env.observation_space(agent).shape, env.action_space(agent).n) for agent in env.agents}
    return env if len(spaces) == 1 else Padded(env)


class Padded:
    """An environment whose agents all see and do as much as the one with most: its scripts have one actor for all.

    Observations are filled up with zeros. A message with a number that there is none of says nothing.
    """

    def __init__(self, env: Any):
        self._env = env
        self._size = max(env.observation_space(agent).shape[0] for agent in env.agents)
        self._widest = max((env.action_space(agent) for agent in env.agents), key=lambda space: space.n)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def observation_space(self, agent: str) -> Any:
        """Of the widest agent."""
        del agent
        return types.SimpleNamespace(shape=(self._size,))

    def action_space(self, agent: str) -> Any:
        """Of the agent with most actions."""
        del agent
        return self._widest

    @functools.partial(jax.jit, static_argnums=0)
    def reset(self, key: jax.Array) -> tuple[dict[str, jax.Array], Any]:
        """Observations of one length, and the state."""
        seen, state = self._env.reset(key)
        return self._padded(seen), state

    @functools.partial(jax.jit, static_argnums=0)
    def step(self, key: jax.Array, state: Any, action: dict[str, jax.Array]) -> tuple[Any, ...]:
        """Likewise, and what else a step says; actions may be `i32[1]`."""
        seen, *rest = self._env.step(key, state, {agent: choice.reshape(()) for agent, choice in action.items()})
        return self._padded(seen), *rest

    def _padded(self, seen: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {agent: jnp.pad(row, (0, self._size - row.shape[0])) for agent, row in seen.items()}
