"""JaxMARL's own training scripts on an environment of this suite, from a clone of its repository.

With what its scripts import (`hydra-core`, `omegaconf`, `wandb`, `flashbax`), in the folder of the clone:

    PYTHONPATH=. python PATH/TO/docs/examples/jaxmarl_baselines.py vdn_rnn TOTAL_TIMESTEPS=8192 NUM_ENVS=8

Scripts: iql_rnn, vdn_rnn, qmix_rnn, ippo_rnn_smax, mappo_rnn_smax, which ask for masks; ippo_ff_mpe, which does not.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jaxmarl
import wandb
import yaml
from jaxmarl.wrappers.baselines import LogEnvState, LogWrapper, SMAXLogEnvState

import jaxvrp
from jaxvrp.adapters.jaxmarl import JaxMarlEnv, to_jaxmarl
from jaxvrp.io.command_line import UserError
from train import entry

Q_LEARNING = ["QLearning/config/config.yaml", "QLearning/config/alg/ql_rnn_smax.yaml"]

CONFIGS = {
    "iql_rnn": Q_LEARNING,
    "vdn_rnn": Q_LEARNING,
    "qmix_rnn": Q_LEARNING,
    "ippo_ff_mpe": ["IPPO/config/ippo_ff_mpe.yaml"],
    "ippo_rnn_smax": ["IPPO/config/ippo_rnn_smax.yaml"],
    "mappo_rnn_smax": ["MAPPO/config/mappo_homogenous_rnn_smax.yaml"],
}
"""What they are configured by."""


def make_train(script: str, config: dict[str, Any], env: JaxMarlEnv) -> Any:
    """Its `make_train`, with our environment in the place of the one that it would make."""
    folder = {"ippo": "IPPO", "mappo": "MAPPO"}.get(script.partition("_")[0], "QLearning")
    module: Any = importlib.import_module(f"baselines.{folder}.{script}")
    if folder == "QLearning":
        return module.make_train(config, LogWrapper(env))
    if script == "ippo_ff_mpe":
        jaxmarl.make = lambda name, **kwargs: env
        module.MPELogWrapper = LogWrapper  # theirs multiplies rewards by the number of agents
    else:
        module.HeuristicEnemySMAX = lambda **kwargs: env
    return module.make_train(config)


def summary(script: str, env: JaxMarlEnv, trained: Any) -> str:
    """The mean return of the last whole episodes, and how many forbidden actions were played.

    Scripts of Q-learning test the greedy policy; the others keep the states of the episodes that are under way.
    """
    if CONFIGS[script] is Q_LEARNING:
        tested = {name: figures.mean() for name, figures in trained["runner_state"][2].items()}
        return f"return {tested['returned_episode_returns']:.2f}, forbidden actions {tested['invalid_actions']:g}"
    kinds = (LogEnvState, SMAXLogEnvState)
    leaves = jax.tree.leaves(trained["runner_state"], is_leaf=lambda node: isinstance(node, kinds))
    (log,) = (leaf for leaf in leaves if isinstance(leaf, kinds))
    ended = log.returned_episode_lengths > 0
    forbidden = jax.vmap(jax.vmap(env.env.metrics))(log.env_state)["invalid_actions"]
    return f"return {log.returned_episode_returns[ended].mean():.2f}, forbidden actions {forbidden.mean():g} so far"


def number(value: Any) -> Any:
    """YAML reads 1e7 as a text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def configured(script: str, changes: Sequence[str]) -> dict[str, Any]:
    """The configuration of the script, but for the changes, each `KEY=VALUE`.

    Raises:
        UserError: there is no such file here, or no such key in it; one line.
    """
    config: dict[str, Any] = {}
    for path in CONFIGS[script]:
        try:
            config |= yaml.safe_load(pathlib.Path("baselines", path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"there is no baselines/{path} here; run this in the folder of a clone of JaxMARL"
            ) from None
    for change in changes:
        key, _, value = change.partition("=")
        if key not in config or not value:
            raise UserError(f"{change}: it must be KEY=VALUE, with a key of baselines/{CONFIGS[script][-1]}")
        config[key] = yaml.safe_load(value)
    return {key: number(value) for key, value in config.items()} | {"ENV_KWARGS": {}, "WANDB_MODE": "disabled"}


def main() -> None:
    """Train with the configuration of the script, but for the KEY=VALUE that were given."""
    parser = argparse.ArgumentParser(description="train by a script of JaxMARL on an environment of jaxvrp")
    parser.add_argument("script", choices=CONFIGS)
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="in place of what its configuration says")
    args = parser.parse_args()
    script, config = args.script, configured(args.script, args.changes)
    # Spaces that are the same for all, and a name for which JaxMARL asks for masks.
    env = to_jaxmarl(jaxvrp.make("truck_drone", num_drones=2, max_steps=40), pad=True, name="smax_truck_drone")
    # They log to it in any case.
    wandb.init(mode="disabled")
    train = jax.jit(jax.vmap(make_train(script, config, env)))
    # One seed; those of Q-learning and of MPE expect to be mapped over several.
    trained = train(jax.random.split(jax.random.PRNGKey(int(config["SEED"])), 1))
    print(f"{script}: trained for {config['TOTAL_TIMESTEPS']:g} steps; an episode: {summary(script, env, trained)}")


if __name__ == "__main__":
    entry(main)
