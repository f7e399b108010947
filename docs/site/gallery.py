"""Plays one episode of every environment and writes the pages of the gallery.

python docs/site/gallery.py FOLDER                # a page for each environment, and what was played
python docs/site/gallery.py FOLDER --animations   # beside them, the map of each, moving
python docs/site/gallery.py FOLDER --only darp    # one of them, or several

Policies are those that are shipped. In `tsp_drone` a planner plays, and in `pcb` parts walk to places that annealing
found.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageSequence

import jaxvrp
from jaxvrp import registry, show
from jaxvrp.actor import Actor, Carry
from jaxvrp.environment import State, TimeStep
from jaxvrp.envs.pcb import Pcb, from_unscaled
from jaxvrp.envs.pcb.baselines.annealing import anneal, net_widths
from jaxvrp.episodes import Episode, record_episode
from jaxvrp.show.animation import WIDTH
from jaxvrp.show.figure import lay_out
from jaxvrp.spaces import ByRole
from jaxvrp.story import Story
from train.run.evaluator import Evaluator
from train.run.folder import RunFolder

INDEX = "gallery.json"
"""What was played, for the page that shows the episodes."""


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """One episode of the gallery.

    Attributes:
        name: of the environment, and of the files.
        player: who plays, in words.
        play: gives the environment, states `[T + 1, ...]` and actions `{role: [T, agents, ...]}`.
        map_box: of an animation that is not drawn from a story, without title, legend and charts: left, top, right,
            bottom, in pixels.
    """

    name: str
    player: str
    play: Callable[[], tuple[Any, Any, ByRole]]
    map_box: tuple[int, int, int, int] | None = None


class WalkToGoal:
    """An actor of `pcb`: every part walks straight to its pose of a placement that is given.

    Attributes:
        env: with `rotation="absolute"`.
        position: `f32[N, 2]`, centres of all parts, mm.
        orientation: `i32[N]`, quarter turns.
    """

    def __init__(self, env: Pcb, position: jax.Array, orientation: jax.Array):
        self.env, self.position, self.orientation = env, position, orientation

    def init(self, num_envs: int) -> Carry:
        """Remembers nothing."""
        del num_envs
        return ()

    def act(self, key: jax.Array, carry: Carry, state: State, timestep: TimeStep) -> tuple[ByRole, Carry]:
        """See `jaxvrp.actor.Actor.act`."""
        del key, timestep
        return {"component": jax.vmap(self._moves)(state)}, carry

    def _moves(self, state: Any) -> jax.Array:
        """`f32[A, 3]`, of one board."""
        part, outline = state.instance.wiring.component, state.instance.board.outline
        way = self.position[part] - state.position[part]
        return straight_moves(way, self.orientation[part], self.env.step_fraction * outline.min())


def straight_moves(way: jax.Array, quarters: jax.Array, longest: jax.Array | float) -> jax.Array:
    """Actions of `pcb` that go along `way`: the longest step, or what is left of the way.

    Args:
        way: `f32[A, 2]`, to the goals, mm; y points down.
        quarters: `i32[A]`, quarter turns at the goals.
        longest: step, mm.

    Returns:
        `f32[A, 3]` in [-1, 1].
    """
    share = jnp.minimum(jnp.linalg.norm(way, axis=1) / longest, 1.0)
    # Angles are counter-clockwise on screen.
    angle = jnp.arctan2(-way[:, 1], way[:, 0]) % (2 * jnp.pi)
    return from_unscaled(jnp.stack([share, angle, (quarters + 0.5) / 4], axis=1))


def play_policy(name: str, instance: int) -> Episode:
    """A shipped policy on one of its fixed instances, most probable actions: what `train.replay` plays, too."""
    run = RunFolder(name).load("latest")
    learner, config = run.learner, run.learner.config
    evaluator = Evaluator(learner.evaluation_env, config.eval_episodes, config.eval_seed)
    return jax.jit(lambda params: evaluator.record(learner.actor(params, deterministic=True), instance))(run.params)


def play_tsp_drone() -> Episode:
    """TSP-ep-all on twenty nodes."""
    env = jaxvrp.make("tsp_drone", num_nodes=20)
    actor = registry.players_of(env).planners["TSP-ep-all"](env)
    return _record(env, actor, jax.jit(env.generate)(jax.random.key(3)))


def play_tours() -> Episode:
    """Tandems of the nearest neighbour, fifteen customers with time windows."""
    env = jaxvrp.make("truck_drone_tours", num_nodes=16)
    actor = registry.players_of(env).baselines["nearest neighbour"](env)
    return _record(env, actor, jax.jit(env.generate)(jax.random.key(0)))


def play_sidekicks() -> Episode:
    """A truck with three drones and twelve customers, after a second of the search."""
    env = jaxvrp.make("flying_sidekicks", num_nodes=13, num_drones=3)
    instance = jax.jit(env.generate)(jax.random.key(0))
    *_, found = registry.players_of(env).searches["search"](env, instance, jax.random.key(0), 1.0)
    assert found.episode
    return found.episode()


def play_pcb() -> Episode:
    """The best of 16 annealed placements of a generated board, walked to by all parts at once."""
    parts = {"num_boards": 1, "min_parts": 10, "max_parts": 12, "min_utilisation": 0.25}
    env = jaxvrp.make("pcb", **parts, mode="simultaneous", max_steps=20, augment=False, rays=4)
    instance = jax.jit(env.generate)(jax.random.key(0))
    board = instance.board
    search = functools.partial(anneal, widths=net_widths(board), num_moves=20_000, num_restarts=16)
    found = jax.jit(search)(board, jax.random.key(1))
    best = jnp.argmin(found.hpwl)
    return _record(env, WalkToGoal(env, found.position[best], found.orientation[best]), instance)


def play_dispatch() -> Episode:
    """A morning of six vehicles, of which an idle one goes where vehicles are needed most."""
    env = jaxvrp.make("dispatch", num_vehicles=6, expected_requests=80.0, max_requests=100, zones=4)
    actor = registry.players_of(env).baselines["cover"](env)
    return _record(env, actor, jax.jit(env.generate)(jax.random.key(2)))


def _record(env: Any, actor: Actor, instance: Any) -> Episode:
    return jax.jit(lambda instance: record_episode(env, actor, instance, jax.random.key(0)))(instance)


EXHIBITS = (
    Exhibit("truck_drone", "the shipped policy `truck_drone_basic`", lambda: play_policy("truck_drone_basic", 3)),
    Exhibit("vrpd_tw", "the shipped policy `vrpd_tw`", lambda: play_policy("vrpd_tw", 0)),
    Exhibit("darp", "the shipped policy `darp`", lambda: play_policy("darp", 5)),
    Exhibit("dispatch", "a rule that sends idle vehicles where they are needed", play_dispatch),
    Exhibit("tsp_drone", "the planner TSP-ep-all", play_tsp_drone),
    Exhibit("truck_drone_tours", "the rule nearest neighbour", play_tours),
    Exhibit("flying_sidekicks", "the search, after a second", play_sidekicks),
    Exhibit("pcb", "parts that walk to a placement found by annealing", play_pcb, (19, 49, 491, 521)),
)


def write_gallery(folder: Path, only: Sequence[str], *, animations: bool = False) -> None:
    """Write the pages of the exhibits `only` into `folder`, and `gallery.json`: name, player and summary of each."""
    folder.mkdir(parents=True, exist_ok=True)
    played = []
    for exhibit in (exhibit for exhibit in EXHIBITS if exhibit.name in only):
        episode = jax.device_get(exhibit.play())
        exported = show.export_episode(episode)
        show.write_page({**exported, "subtitle": exhibit.player.replace("`", "")}, folder / f"{exhibit.name}.html")
        if animations:
            show.save(episode, folder / f"{exhibit.name}.gif")
            crop_animation(folder / f"{exhibit.name}.gif", exhibit.map_box or map_box(show.story_of(episode)))
        summary = {name: float(np.mean(value)) for name, value in exported["summary"].items()}
        played.append({"name": exhibit.name, "player": exhibit.player, "summary": summary})
    (folder / INDEX).write_text(json.dumps(played, indent=1), encoding="utf-8")


def map_box(story: Story) -> tuple[int, int, int, int]:
    """Where the map is in an animation: left, top, right, bottom, in pixels."""
    picture = lay_out(story, width=WIDTH)
    left, bottom, right, top = picture.map.axes.get_window_extent().extents
    height = picture.figure.bbox.height
    return round(left), round(height - top), round(right), round(height - bottom)


def crop_animation(path: Path, box: tuple[int, int, int, int]) -> None:
    """Leave only a part of an animation: what can be seen where it is small."""
    with Image.open(path) as animation:
        pictures = ImageSequence.Iterator(animation)
        frames = [(picture.convert("RGB").crop(box), picture.info["duration"]) for picture in pictures]
    # One palette for all, so that what does not move is stored once; the last picture has all that there was.
    palette = frames[-1][0].quantize(64)
    first, *others = (frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame, _ in frames)
    durations = [duration for _, duration in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, optimize=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Play one episode of every environment, and write a page for each.")
    parser.add_argument("folder", type=Path, help="where the pages go")
    parser.add_argument("--animations", action="store_true", help="write the map of each, moving (.gif), as well")
    names = [exhibit.name for exhibit in EXHIBITS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="environments (default: all)")
    args = parser.parse_args()
    # An episode is played once: optimising its program takes longer.
    jax.config.update("jax_disable_most_optimizations", True)
    write_gallery(args.folder, args.only, animations=args.animations)


if __name__ == "__main__":
    main()
