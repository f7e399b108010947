"""The tutorials' named examples run as they stand there; `test_docs.py` runs the others."""

from __future__ import annotations

import json
import pathlib
import re
import shlex

import jax
import pytest

import jaxvrp
from jaxvrp import show
from jaxvrp.envs.truck_drone import map_of
from jaxvrp.envs.truck_drone.baselines.greedy import GreedyActor
from jaxvrp.envs.truck_drone.plan import PROBLEMS
from jaxvrp.episodes import record_episode
from train import mappo

TUTORIALS = pathlib.Path(__file__).parents[1] / "docs" / "tutorials"
SCENARIO = "train_your_scenario.md"
TINY = {
    "total_steps": 512,
    "num_envs": 8,
    "rollout_length": 16,
    "num_minibatches": 2,
    "hidden_sizes": "[8]",
    "eval_episodes": 4,
    "env.max_steps": 12,
    "num_devices": 1,
}


def example(page: str, name: str) -> str:
    """The code block under `<!-- example: NAME -->` of a tutorial."""
    block = re.search(rf"<!-- example: {re.escape(name)} -->\n```\w+\n(.*?)```", (TUTORIALS / page).read_text(), re.S)
    assert block, f"{page} has no example '{name}'"
    return block[1]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    """The folder of the module that the tutorial writes; it can be imported from there."""
    folder = tmp_path_factory.mktemp("scenario")
    module = folder / "my_package" / "my_module.py"
    module.parent.mkdir()
    module.write_text(example(SCENARIO, "my_package/my_module.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield "my_package.my_module:NoFlyZone"


def trained(name, folder, **keys):
    """The records and the summary of a tiny training by a command of the tutorial."""
    command = shlex.split(example(SCENARIO, name))
    assert command[:3] == ["python", "-m", "train.mappo"]
    tiny = [word for key, value in (TINY | keys).items() for word in (f"--{key}", str(value))]
    mappo.main([*command[3:], *tiny, "--run_dir", str(folder / "run")])
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return records, json.loads((folder / "run" / "summary.json").read_text())


@pytest.mark.slow
def test_a_scenario_of_ones_own_is_trained_without_touching_the_repository(scenario, tmp_path):
    records, summary = trained("train it", tmp_path)
    assert all(record["env/road_toll"] >= 0 for record in records)
    assert records[-1]["env/road_toll"] == records[-1]["env/truck_distance"] * 0.5
    assert {"policy", "greedy", "random"} == set(summary)


@pytest.mark.slow
def test_its_feature_is_seen_by_attention(scenario, tmp_path):
    records, summary = trained("train it with attention", tmp_path, attention_size=8, imitate_steps=128)
    assert records[-1]["env/road_toll"] >= 0 and {"policy", "greedy", "random"} == set(summary)


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["flat", "entities"])
def test_the_scenario_passes_check_env(scenario, observation):
    sizes = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 2, "max_steps": 12}
    jaxvrp.check_env(jaxvrp.make("truck_drone", scenario=scenario, observation=observation, **sizes))


def test_its_zone_is_drawn_and_its_toll_is_a_column(scenario):
    sizes = {"num_drones": 1, "num_customers": 2, "num_route_nodes": 2, "max_steps": 12}
    env = jaxvrp.make("truck_drone", scenario=scenario, road_cost=0.5, **sizes)
    instance = env.generate(jax.random.key(0))
    actor = GreedyActor(env)
    episode = jax.jit(lambda: record_episode(env, actor, instance, jax.random.key(0)))()
    (region,) = (story := show.story_of(episode)).regions
    assert region.name == "airfield" and len(region.corners) == 24 and "road toll" in dict(story.summary)
    fleet_map = map_of(env, instance)
    plan = PROBLEMS.plan(fleet_map, episode)
    tolls = {event["what"]: event["toll"] for event in plan["events"]}
    drives = [event for event in plan["events"] if event["what"] == "drive"]
    assert tolls["launch"] is None and drives[0]["toll"] == 0.5 * (drives[0]["end"] - drives[0]["start"])
    truck, _ = PROBLEMS.sheets(fleet_map, plan)
    assert truck.columns[-1] == "toll" and f"{drives[0]['toll']:g}" in [row[-1] for row in truck.rows]
