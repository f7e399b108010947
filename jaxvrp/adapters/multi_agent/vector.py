"""Several environments of the list API, one after the other or each in a process: the extra `gymnasium`.

For more than a handful, `jaxvrp.VecEnv` and `to_gymnasium_vector` step thousands in one compiled program.
"""

from __future__ import annotations

import abc
import contextlib
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import jax
import numpy as np

from jaxvrp.adapters.gym_spaces import longest, pad, spaces
from jaxvrp.adapters.multi_agent.env import VRPEnv, elements
from jaxvrp.io.messages import shown

Infos = list[list[dict[str, Any]]]
"""`infos[env][agent]`."""

Spaces = tuple[list[Any], list[Any], list[Any]]
"""Of observations, shared observations and actions, each with one entry per agent."""

PATIENCE = 5.0
"""Seconds that a process is given to end by itself."""

RENEWED = ("available_actions", "share_obs", "valid")
"""In `info`: of the new episode after a reset, where all else is of the old one."""


class VRPVecEnv(abc.ABC):
    """E environments with the same agents, each begun again as soon as its episode ends.

    After that, the observation, `available_actions`, `share_obs` and `valid` are those of the new episode;
    `final_observation` (`f32[obs_dim]`, padded), `final_share_obs` and the metrics in `info` those of the old.

    Attributes:
        num_envs: E.
        action_space, observation_space, share_observation_space: of one environment, lists with one entry per agent;
            observations are padded to one size.
        infos: `infos[env][agent]` of the last step, or of the beginning after a reset.

    Raises:
        ValueError: there is no environment, or they differ in their spaces.
        TypeError: there are no functions in a list, or they return no environments of the list API.
    """

    infos: Infos

    def __init__(self, all_spaces: Sequence[Spaces]):
        if not all_spaces:
            raise ValueError("env_fns is empty; give at least one function that makes an environment")
        if any(other != all_spaces[0] for other in all_spaces):
            raise ValueError("the environments have different agents or spaces; make all of the same sizes")
        self.num_envs, self.infos = len(all_spaces), []
        self.observation_space, self.share_observation_space, self.action_space = all_spaces[0]

    def reset(self) -> np.ndarray:
        """Begin everywhere: `f32[E, agents, obs_dim]`."""
        observations, self.infos = map(list, zip(*self._call("reset", [()] * self.num_envs), strict=True))
        return np.stack(observations)

    def step(self, actions: Sequence[Sequence[Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, Infos]:
        """Play one step everywhere.

        Args:
            actions: for each environment what `VRPEnv.step` takes.

        Returns:
            observations `f32[E, agents, obs_dim]`, rewards `f32[E, agents, 1]`, dones `bool[E, agents]`, infos.

        Raises:
            ValueError: the wrong number of actions, or one that `VRPEnv.step` refuses; no environment has stepped then.
                What an environment raises.
        """
        if not hasattr(actions, "__len__") or len(actions) != self.num_envs:
            given = f"actions for {len(actions)} environments" if hasattr(actions, "__len__") else shown(actions)
            raise ValueError(f"step got {given}; it needs actions for each of {self.num_envs}")
        arguments = []
        for rank, action in enumerate(actions):
            agents = [f"agent {agent} of environment {rank}" for agent in range(len(self.action_space))]
            arguments.append((elements(agents, self.action_space, action),))
        observations, rewards, dones, self.infos = map(list, zip(*self._call("step", arguments), strict=True))
        return np.stack(observations), np.stack(rewards), np.stack(dones), self.infos

    @abc.abstractmethod
    def close(self) -> None:
        """End what was started."""

    @abc.abstractmethod
    def _call(self, method: str, arguments: Sequence[tuple]) -> list[Any]:
        """A method of every `_Stage`."""


class VRPDummyVecEnv(VRPVecEnv):
    """All in this process, one after the other."""

    def __init__(self, env_fns: Sequence[Callable[[], VRPEnv]]):
        self._stages = [_Stage(make) for make in _functions(env_fns)]
        super().__init__([stage.spaces() for stage in self._stages])

    def close(self) -> None:
        """Close the environments."""
        self._call("close", [()] * self.num_envs)

    def _call(self, method: str, arguments: Sequence[tuple]) -> list[Any]:
        return [getattr(stage, method)(*each) for stage, each in zip(self._stages, arguments, strict=True)]


class VRPSubprocVecEnv(VRPVecEnv):
    """Each in a process of its own, on the CPU.

    Processes are spawned, because JAX runs threads and a fork of them deadlocks: scripts need
    `if __name__ == "__main__":`. If one fails, all are ended.

    Raises:
        RuntimeError: an environment raised (with its traceback), or its process died; or this one was closed.
    """

    def __init__(self, env_fns: Sequence[Callable[[], VRPEnv]]):
        context = multiprocessing.get_context("spawn")
        pickled = [cloudpickle.dumps(make) for make in _functions(env_fns)]
        self._workers = [_Worker(f"worker {rank}", context, make) for rank, make in enumerate(pickled)]
        try:
            super().__init__(self._call("spaces", [()] * len(pickled)) if pickled else [])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes; they are gone when this returns."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.end()
        self._workers = []

    def _call(self, method: str, arguments: Sequence[tuple]) -> list[Any]:
        if not self._workers:
            raise RuntimeError(f"{method} was called after the environments were closed; make new ones")
        try:
            for worker, each in zip(self._workers, arguments, strict=True):
                # If it is dead, `answer` says so.
                with contextlib.suppress(OSError):
                    worker.pipe.send((method, each))
            return [worker.answer(method) for worker in self._workers]
        except BaseException:
            self.close()
            raise


def _functions(env_fns: Any) -> list[Callable[[], VRPEnv]]:
    found = list(env_fns) if isinstance(env_fns, Iterable) else None
    if found is None or not all(map(callable, found)):
        raise TypeError(
            f"env_fns is {shown(env_fns)}; it must be a list of functions, each of which makes an environment"
        )
    return found


class _Stage:
    """One environment: padded, and begun again when its episode ends."""

    def __init__(self, make: Callable[[], VRPEnv]):
        self.env = make()
        if not isinstance(getattr(self.env, "observation_space", None), list):
            raise TypeError(
                f"a function of env_fns returned {shown(self.env)}; it must return an environment of the list API, "
                "such as VRPEnv(env=...)"
            )
        self.size = longest(self.env.observation_space)

    def spaces(self) -> Spaces:
        padded = [spaces.Box(-np.inf, np.inf, (self.size,), np.float32)] * len(self.env.observation_space)
        return padded, self.env.share_observation_space, self.env.action_space

    def reset(self) -> tuple[np.ndarray, list[dict[str, Any]]]:
        return pad(self.env.reset(), self.size), self.env.infos

    def step(self, actions: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        unpadded, rewards, dones, infos = self.env.step(actions)
        observations = pad(unpadded, self.size)
        if all(dones):
            last, (observations, begun) = observations, self.reset()
            now = [{name: info[name] for name in RENEWED if name in info} for info in begun]
            infos = [
                {**info, **new, "final_observation": seen, "final_share_obs": info["share_obs"]}
                for info, new, seen in zip(infos, now, last, strict=True)
            ]
        return observations, np.array(rewards, np.float32), np.array(dones, bool), infos

    def close(self) -> None:
        self.env.close()


class _Worker:
    """The parent's end of a process."""

    def __init__(self, name: str, context: Any, pickled: bytes):
        self.name = name
        self.pipe, child_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(child_end, pickled), name=name, daemon=True)
        self.process.start()
        # With a copy of it open here, the death of the process would go unnoticed.
        child_end.close()

    def answer(self, method: str) -> Any:
        try:
            is_result, answer = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(PATIENCE)
            text = f"{self.name} died in '{method}' with exit code {self.process.exitcode}"
            raise RuntimeError(f"{text}; if it never started, put the script under if __name__ == '__main__'") from None
        if not is_result:
            raise RuntimeError(f"{self.name} failed in '{method}':\n{answer}")
        return answer

    def end(self) -> None:
        """Wait for it; a process that is stuck is ended by force."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(pipe: Connection, pickled: bytes) -> None:
    """What runs in a process: answers `(method, arguments)` with `(True, result)` or `(False, traceback)`."""
    # Ctrl-C reaches the whole group; the parent closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # One environment is no work for an accelerator, and its memory cannot be shared by many processes.
    jax.config.update("jax_platforms", "cpu")
    stage = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, arguments = pipe.recv()
            try:
                stage = _Stage(cloudpickle.loads(pickled)) if stage is None else stage
                answer = pickle.dumps((True, getattr(stage, method)(*arguments)))
            except BaseException:
                answer = pickle.dumps((False, traceback.format_exc()))
            pipe.send_bytes(answer)
    if stage is not None:
        stage.close()
