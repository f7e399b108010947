"""What a policy thought stands at the steps of its decisions, without void rows and padded actions."""

import types

import numpy as np
import pytest

from jaxvrp import Environment
from jaxvrp.show import with_insight


def played(*, holds, valid=True, lasted=(0, 1, 1)):
    """An episode of one role of two agents, of which the second is void unless `valid`; decisions may hold."""
    functions = {"duration": (lambda self, state: 1.0) if holds else Environment.duration}
    functions["roles"] = {"mover": types.SimpleNamespace(num_agents=2)}
    present = {"mover": np.array([[True, valid]] * len(lasted))}
    return types.SimpleNamespace(
        env=type("Movers", (), functions)(), timesteps=types.SimpleNamespace(valid=present, duration=np.array(lasted))
    )


def episode_of(length):
    return {"actions": {"mover": ["STAY", "GO"]}, "steps": [{"step": step} for step in range(length)]}


def test_what_was_thought_at_each_step():
    probability, value = np.array([[[0.25, 0.75, 0.0]] * 2] * 3), np.float32([[1.5, 2.5], [0.1, 3], [0, 0]])
    thought = {"probability": {"mover": probability}, "value": {"mover": value}}
    seen = with_insight(episode_of(3), played(holds=False), **thought)
    assert seen["steps"][1] == {"step": 1, "value": {"mover": [0.1, 3.0]}, "probability": {"mover": [[0.25, 0.75]] * 2}}
    assert seen["steps"][2] == {"step": 2, "value": {"mover": [0.0, 0.0]}}, "nothing is chosen in the end"
    seen = with_insight(episode_of(3), played(holds=False, valid=False), **thought)
    assert seen["steps"][0]["value"] == {"mover": [1.5]}
    assert with_insight(episode_of(3), played(holds=False)) == episode_of(3)


@pytest.mark.parametrize(
    ("lasted", "decisions"), [([0, 1, 1, 1, 1], [0, 1, 2, 3]), ([0, 3, 2, 2, 2], [0, 0, 0, 1, 1, 2])]
)
def test_decisions_that_hold_are_told_at_all_their_steps(lasted, decisions):
    value = {"mover": np.arange(5, dtype=np.float32)[:, None].repeat(2, 1)}
    seen = with_insight(episode_of(len(decisions)), played(holds=True, lasted=lasted), value=value)
    assert [step["value"]["mover"][0] for step in seen["steps"]] == decisions
