"""States show themselves in notebooks: one, a batch by its first, and traced values not at all."""

import html
import re
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from jaxvrp import show
from jaxvrp.episodes import from_states


def drawn(text):
    """The SVG's elements by tag, and the line below."""
    figure = ElementTree.fromstring(text)
    tags = [element.tag for element in figure.iter()]
    return tags, figure.find("figcaption").text


def pick(states, at):
    return jax.tree.map(lambda leaf: leaf[at], states)


def test_a_world_shows_itself(deliveries):
    _, states, _, _ = deliveries
    tags, caption = drawn(pick(states, 5)._repr_html_())
    flying = int((states.drones.status[5] != 0).sum())
    assert tags.count("path") == 4 + 3 + 1 + flying, "nodes, customers, truck, drones in the air"
    served = int(states.customers.served[5].sum())
    assert caption.startswith(f"step 5: {served} of 3 customers served; drone 0 ")


def test_a_plan_shows_itself(rides):
    _, states, _, _ = rides
    tags, caption = drawn(pick(states, 3)._repr_html_())
    assert tags.count("path") == 1 + 8 + 1
    assert re.match(r"step 3, time [\d.]+: vehicle 0 at \S+ \d, \d+ on board; \d of 4 requests served$", caption)


@pytest.mark.slow
def test_a_board_shows_itself(placements):
    _, states, _, _ = placements
    state = pick(states, 2)
    tags, caption = drawn(state._repr_html_())
    parts = int(state.instance.board.exists.sum())
    assert tags.count("rect") == 1 + 1 + parts, "frame, outline, parts"
    overlapping = int((np.asarray(state.overlap) > 1e-5).sum())
    verdict = "legal" if overlapping == 0 else f"{overlapping} of {parts} parts overlap or stick out"
    assert caption == f"step 2: HPWL {state.board_hpwl:.4g} mm, {verdict}"


@pytest.mark.slow
@pytest.mark.parametrize(("played", "clock"), [("deliveries", "step"), ("rides", "step"), ("placements", "time")])
def test_of_a_batch_the_first_is_shown(played, clock, request):
    _, states, _, _ = request.getfixturevalue(played)
    first, batch = pick(states, 0)._repr_html_(), states._repr_html_()
    assert drawn(batch)[1] == f"{drawn(first)[1]} (the first of {len(getattr(states, clock))} states)"


@pytest.mark.parametrize("played", ["deliveries", "rides"])
def test_traced_and_abstract_values_show_as_they_always_did(played, request):
    _, states, _, _ = request.getfixturevalue(played)
    state = pick(states, 0)
    seen = []
    jax.eval_shape(lambda state: seen.append(state._repr_html_()), state)
    assert seen == [None]
    assert jax.eval_shape(lambda: state)._repr_html_() is None
    assert jax.tree.map(lambda leaf: np.asarray(leaf)[None][:0], state)._repr_html_() is None


def test_an_episode_in_a_frame(rides):
    env, states, _, _ = rides
    shown = show.html_of(from_states(env, states), height=500)
    assert shown._repr_html_() == shown
    content = re.search(r'srcdoc="([^"]*)"', shown)[1]
    assert html.unescape(content) == show.page(show.export_episode(from_states(env, states)))
    assert "height: 500px" in shown
