"""Gymnasium's own vector wrappers on `to_gymnasium_vector`: as on its `SyncVectorEnv`, in each mode that they take."""

import functools

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformAction, TransformObservation, TransformReward
from gymnasium.wrappers import vector as wrappers

from jaxvrp.adapters.gymnasium import to_gymnasium, to_gymnasium_vector

NUM_ENVS, STEPS = 3, 24

# What they say, on any environment, about the bounds of the spaces that they make.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*precision lowered by casting:UserWarning", "ignore:overflow encountered in cast:RuntimeWarning"
)

SPACE = gymnasium.spaces.Box(-100.0, 100.0, (2, 2), np.float32)

WRAPPERS = {
    "NormalizeObservation": wrappers.NormalizeObservation,
    "TransformObservation": functools.partial(
        wrappers.TransformObservation, func=lambda seen: 2 * seen, single_observation_space=SPACE
    ),
    "VectorizeTransformObservation": functools.partial(
        wrappers.VectorizeTransformObservation,
        wrapper=TransformObservation,
        func=lambda seen: 3 * seen,
        observation_space=SPACE,
    ),
    "DtypeObservation": functools.partial(wrappers.DtypeObservation, dtype=np.float64),
    "FlattenObservation": wrappers.FlattenObservation,
    "ReshapeObservation": functools.partial(wrappers.ReshapeObservation, shape=(4, 1)),
    "RescaleObservation": functools.partial(wrappers.RescaleObservation, min_obs=-1.0, max_obs=1.0),
    "NormalizeReward": wrappers.NormalizeReward,
    "ClipReward": functools.partial(wrappers.ClipReward, min_reward=-1.0, max_reward=0.5),
    "TransformReward": functools.partial(wrappers.TransformReward, func=lambda reward: reward - 1),
    "VectorizeTransformReward": functools.partial(
        wrappers.VectorizeTransformReward, wrapper=TransformReward, func=lambda reward: 2 * reward
    ),
    "DictInfoToList": lambda envs: envs,  # around all, below
}

OF_MASKED = {
    "FilterObservation": functools.partial(wrappers.FilterObservation, filter_keys=["action_mask"]),
    "FlattenObservation": wrappers.FlattenObservation,
}
"""Of observations with the mask in them."""

ON_ACTIONS = {
    "ClipAction": wrappers.ClipAction,
    "RescaleAction": functools.partial(wrappers.RescaleAction, min_action=-2.0, max_action=2.0),
    "TransformAction": functools.partial(wrappers.TransformAction, func=lambda action: action / 2),
    "VectorizeTransformAction": functools.partial(
        wrappers.VectorizeTransformAction, wrapper=TransformAction, func=lambda action: -action, action_space=None
    ),
}
"""Of continuous actions."""

CASES = [
    *(pytest.param(wrapper, True, False, id=name) for name, wrapper in WRAPPERS.items()),
    *(pytest.param(wrapper, True, True, id=f"{name} of masks") for name, wrapper in OF_MASKED.items()),
    *(pytest.param(wrapper, False, False, id=name) for name, wrapper in ON_ACTIONS.items()),
]


def play(envs):
    """All that a batch tells, with infos as lists; without auto-reset, ended episodes are begun anew."""
    envs, random = wrappers.DictInfoToList(envs), np.random.default_rng(0)
    answers, disabled = [envs.reset(seed=3)], envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    for _ in range(STEPS):
        envs.action_space.seed(int(random.integers(1000)))
        answers.append(envs.step(envs.action_space.sample()))
        done = answers[-1][2] | answers[-1][3]
        if disabled and done.any():
            answers.append(envs.reset(options={"reset_mask": done}))
    return answers


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED], ids=lambda mode: mode.value)
def test_recorded_returns_and_lengths_are_those_of_the_episodes(team, mode):
    """By hand: on `SyncVectorEnv` the wrapper forgets, without auto-reset, what the episodes that go on were paid."""
    envs = wrappers.RecordEpisodeStatistics(to_gymnasium_vector(team(max_steps=4), 20, autoreset_mode=mode))
    recorded, paid, total, length = [], [], np.zeros(20), np.zeros(20)
    waiting = np.zeros(20, bool)
    for step in play(envs):
        if len(step) == 2:
            continue
        _, rewards, terminations, truncations, infos = step
        total, length = np.where(waiting, 0.0, total + rewards), np.where(waiting, 0, length + 1)
        done = terminations | truncations
        recorded += [(infos[rank]["episode"]["r"], infos[rank]["episode"]["l"]) for rank in np.flatnonzero(done)]
        paid += [(total[rank], length[rank]) for rank in np.flatnonzero(done)]
        if mode is AutoresetMode.DISABLED:
            total[done], length[done] = 0.0, 0
        else:
            waiting = done
    assert len(paid) > 60
    np.testing.assert_allclose(recorded, paid)


def assert_same(answer, expected):
    """`answer` has what `expected` has; seconds apart."""
    if isinstance(expected, dict):
        for name in set(expected) - {"t"}:
            assert_same(answer[name], expected[name])
    elif isinstance(expected, (tuple, list)):
        for each in zip(answer, expected, strict=True):
            assert_same(*each)
    else:
        np.testing.assert_allclose(answer, expected, atol=1e-5)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("wrapper", "discrete", "masked"), CASES)
def test_a_wrapper_of_gymnasium_does_what_it_does_on_its_own_vector(team, wrapper, discrete, masked, mode):
    env = team(num_agents=2, max_steps=4, discrete=discrete)
    make = functools.partial(to_gymnasium, env, mask_in_observation=masked)
    truth = SyncVectorEnv([make] * NUM_ENVS, autoreset_mode=mode)
    batch = to_gymnasium_vector(env, NUM_ENVS, mask_in_observation=masked, autoreset_mode=mode)
    try:
        truth = wrapper(truth)
    except AssertionError:  # it does not take this mode
        with pytest.raises(AssertionError):
            wrapper(batch)
        return
    batch = wrapper(batch)
    assert batch.observation_space == truth.observation_space and batch.action_space == truth.action_space
    expected = play(truth)
    assert_same(play(batch), expected)
    assert sum((each[2] | each[3]).sum() for each in expected if len(each) == 5) > NUM_ENVS
