"""Episodes and plans as JSON, damaged: read, made into pages, drawn; no page may hold what a file brings along."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxvrp
from jaxvrp.actor import RandomActor
from jaxvrp.envs import darp
from jaxvrp.envs.darp import pictures as draw_plan
from jaxvrp.episodes import record_episode
from jaxvrp.show import __main__ as draw_episode
from jaxvrp.show import export_episode
from jaxvrp.show.episode_format import read_episode, to_json
from tests.mutate import material
from tests.mutate.mutators import NUMBERS, WORDS, mutate_text, pick
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import call, command

SIZES: dict[str, dict[str, Any]] = {
    "darp": {"num_nodes": 4, "num_agents": 2},
    "pcb": {"num_boards": 1, "min_parts": 2, "max_parts": 2, "max_steps": 4, "mode": "simultaneous", "rays": 4},
    "truck_drone": {"num_drones": 1, "num_customers": 2, "num_route_nodes": 3, "max_steps": 6},
}

VALUES = (
    *(None, True, False, 0, -1, 1, 0.5, 1e300, 10**30),
    *(float("nan"), float("inf"), "", "a", "1", [], [1], {}, {"a": 1}),
)
"""Values where others belong."""

INJECTED = "</script><script>document.title = 1</script>"


class EpisodeFiles(Subject):
    """See the module."""

    def __init__(self, scratch: Path):
        super().__init__(scratch)
        self._episodes = [_episode(name, sizes) for name, sizes in SIZES.items()]
        self._problem = scratch / "problem.txt"
        darp.write_cordeau(self._problem, material.instance(np.random.default_rng(0)))

    def attempt(self, case: Case) -> Tally:
        """A damaged file is refused in one line, or is what the page or the picture shows."""
        random = case.random()
        if random.random() < 0.15:
            self._draw_damaged_plan(random)
        else:
            self._show_damaged_episode(random)
        return NOTHING

    def _show_damaged_episode(self, random: np.random.Generator) -> None:
        episode = pick(random, self._episodes)
        path = Path("episode.json")
        if random.random() < 0.5:
            path.write_bytes(mutate_text(random, to_json(episode).encode()))
        else:
            path.write_text(json.dumps(_with_damaged_value(episode, random)))
        outcome = call(read_episode, path)
        words = _page_words(random)
        given = path.read_bytes()
        ended = command(draw_episode.main, [str(path), *words])
        if path.read_bytes() != given:
            raise Finding("the command overwrites the episode that it draws", f"{words}")
        if not words and (ended.status == 0) != (outcome.refusal is None):
            raise Finding("the command and the function do not agree", f"{outcome.refusal}\n{ended.stderr}")
        page = Path("episode.html")
        if ended.status == 0 and page.is_file():
            _check_page(page.read_text(encoding="utf-8"), path)
        if ended.status == 2 and page.is_file():
            raise Finding("a page is written of what is refused", ended.stderr)

    def _draw_damaged_plan(self, random: np.random.Generator) -> None:
        sound = b'{"routes": [[1, 2, 3, 4], []]}'
        Path("plan.json").write_bytes(mutate_text(random, sound))
        ended = command(draw_plan.main, [str(self._problem), "--plan", "plan.json", "--out", "plan.png"])
        if Path("plan.png").is_file() != (ended.status == 0):
            raise Finding("a picture of what is refused, or none", ended.stderr)


def _episode(name: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """A random episode of an environment, in the format."""
    env = jaxvrp.make(name, **sizes)
    play: Callable[..., Any] = jax.jit(lambda key: record_episode(env, RandomActor(env), env.generate(key), key))
    return export_episode(jax.device_get(play(jax.random.key(0))))


def _with_damaged_value(episode: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """One value, anywhere, becomes another, is lost, or is there twice."""
    damaged = copy.deepcopy(episode)
    holder: Any = damaged
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = pick(random, keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.15:
            break
        holder = inner
    _replace(holder, key, random)
    return damaged


def _replace(holder: Any, key: Any, random: np.random.Generator) -> None:
    how = random.random()
    if how < 0.15:
        del holder[key]
    elif how < 0.25 and isinstance(holder, list):
        holder.append(holder[key])
    elif how < 0.35:
        holder[key] = INJECTED
    elif how < 0.5 and isinstance(holder, dict):
        holder[pick(random, WORDS)] = holder.pop(key)
    else:
        choices = (*VALUES, *NUMBERS)
        holder[key] = pick(random, choices)


def _page_words(random: np.random.Generator) -> list[str]:
    """Where the page goes: beside the episode; or into its place, by one of its names, which must be refused."""
    if random.random() < 0.9:
        return []
    here = Path.cwd()
    names = ("episode.json", "./episode.json", f"{here}/episode.json", f"../{here.name}/episode.json", "link.json")
    name = pick(random, names)
    if name == "link.json":
        Path(name).symlink_to("episode.json")
    return ["-o", name]


def _check_page(page: str, path: Path) -> None:
    """The page holds the episode of the file, and no script that came with it."""
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    if found is None:
        raise Finding("the page holds no episode")
    if json.loads(found[1]) != json.loads(path.read_text(encoding="utf-8")):
        raise Finding("the page holds another episode than the file")
    if INJECTED in page or INJECTED in found[1]:
        raise Finding("a script of the file is in the page")
