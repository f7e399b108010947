"""The separated runner of the `on-policy` repository (MAPPO of Yu et al., 2022), with masks and the global observation.

Its own runner for particle environments knows neither: it makes `share_obs` of all observations and draws from all
actions. This one reads both from `infos`. With the repository on the path (`pip install -e` of its clone):

    python docs/examples/on_policy_runner.py
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import numpy as np
import torch
from onpolicy.config import get_config
from onpolicy.runner.separated.mpe_runner import MPERunner

from jaxvrp.adapters.multi_agent import VRPDummyVecEnv, VRPEnv

THREADS, EPISODE_LENGTH, STEPS = 4, 20, 400


class MaskedRunner(MPERunner):
    """One policy per agent, each with its own mask, and a critic of the global observation."""

    def warmup(self) -> None:
        """Reset everything, and fill the first row of the buffers."""
        obs = self.envs.reset()
        for agent, buffer in enumerate(self.buffer):
            buffer.obs[0] = obs[:, agent]
            buffer.share_obs[0] = rows_of(self.envs.infos, agent, "share_obs")
            buffer.available_actions[0] = rows_of(self.envs.infos, agent, "available_actions")

    @torch.no_grad()
    def collect(self, step: int) -> tuple[Any, ...]:
        """Values, actions `[E, agents, 1]`, log probabilities, both recurrent states, and actions `[E, agents]`."""
        answers = []
        for trainer, buffer in zip(self.trainer, self.buffer, strict=True):
            trainer.prep_rollout()
            seen = (buffer.share_obs, buffer.obs, buffer.rnn_states, buffer.rnn_states_critic, buffer.masks)
            rows = trainer.policy.get_actions(*(array[step] for array in seen), buffer.available_actions[step])
            answers.append([row.cpu().numpy() for row in rows])
        values, actions, log_probs, rnn, rnn_critic = (np.stack(rows, axis=1) for rows in zip(*answers, strict=True))
        return values, actions, log_probs, rnn, rnn_critic, actions[..., 0]

    def insert(self, data: tuple[Any, ...]) -> None:
        """What a step has told, of each agent into its buffer."""
        obs, rewards, dones, infos, values, actions, log_probs, rnn, rnn_critic = data
        rnn[dones], rnn_critic[dones] = 0.0, 0.0
        masks = 1.0 - dones[..., None].astype(np.float32)
        for agent, buffer in enumerate(self.buffer):
            kept = (rnn, rnn_critic, actions, log_probs, values, rewards, masks)
            buffer.insert(
                rows_of(infos, agent, "share_obs"),
                obs[:, agent],
                *(array[:, agent] for array in kept),
                bad_masks=1.0 - rows_of(infos, agent, "bad_transition")[:, None],
                available_actions=rows_of(infos, agent, "available_actions"),
            )


def rows_of(infos: list[list[dict[str, Any]]], agent: int, name: str) -> np.ndarray:
    """`[E, ...]`, what all environments say of one agent."""
    return np.array([of_env[agent][name] for of_env in infos], np.float32)


def main() -> None:
    """Train on two drones for a moment."""
    args = get_config().parse_known_args([])[0]
    args.algorithm_name, args.experiment_name, args.env_name = "mappo", "jaxvrp", "jaxvrp"
    args.use_recurrent_policy = args.use_naive_recurrent_policy = args.use_wandb = False
    args.n_rollout_threads, args.episode_length, args.num_env_steps = THREADS, EPISODE_LENGTH, STEPS
    args.scenario_name, args.share_policy = "truck_drone_basic", False
    sizes = {"num_drones": 2, "num_customers": 3, "max_steps": EPISODE_LENGTH}
    envs = VRPDummyVecEnv([lambda rank=rank: VRPEnv({**sizes, "seed": rank}) for rank in range(THREADS)])
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "all_args": args,
            "envs": envs,
            "eval_envs": None,
            "num_agents": len(envs.action_space),
            "device": torch.device("cpu"),
            "run_dir": pathlib.Path(folder),
        }
        MaskedRunner(config).run()
    print("forbidden actions in the last episodes:", [infos[0]["invalid_actions"] for infos in envs.infos])


if __name__ == "__main__":
    main()
