"""All programs that ship compile for accelerators, by the compilers of their makers, in their smallest form."""

import json
import re

import pytest

import jaxvrp
from benchmarks.compiled import programs
from benchmarks.compiled.__main__ import chosen, compiled_row, table
from benchmarks.compiled.targets import TARGETS
from benchmarks.measuring.subject import subject_of
from jaxvrp.io.command_line import UserError
from train.learning.sharding import DEVICES
from train.settings.config_file import shipped_names

SMALL = {
    "mappo": {"num_envs": 8, "num_minibatches": 1, "eval_episodes": 2},
    "off_policy": {"num_envs": 4, "batch_size": 8, "buffer_size": 400, "eval_episodes": 2},
}


@pytest.fixture(params=TARGETS)
def target(request):
    """A target whose compiler is installed; programs are made for it."""
    target = TARGETS[request.param]
    try:
        devices = target.devices()
    except UserError:
        pytest.skip(f"the compiler for {request.param} is not installed ({target.requirement})")
    before = DEVICES.set(devices)
    yield target
    DEVICES.reset(before)


def small_programs():
    for name in jaxvrp.registered():
        subject = subject_of(name)
        parameters = subject.parameters(subject.tiny) if subject.tiny else {}
        yield from programs.environment_programs(name, name, parameters, batch=8)
    for name, (environment, parameters) in programs.SCENARIOS.items():
        small = {"num_vehicles": 2, "max_stops": 4, "max_requests": 20}
        yield from programs.environment_programs(name, environment, parameters | small, batch=8)


@pytest.mark.slow
def test_every_environment_compiles(target):
    failed = {
        row["program"]: row["error"] for each in small_programs() if "error" in (row := compiled_row(each, target))
    }
    assert failed == {}


@pytest.mark.slow
@pytest.mark.parametrize("config", shipped_names())
def test_every_configuration_compiles(target, config):
    small = SMALL["off_policy" if config.startswith("pcb") else "mappo"]
    rows = [compiled_row(each, target) for each in programs.learner_programs(config, **small)]
    assert {row["program"]: row["error"] for row in rows if "error" in row} == {}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mappo", "ippo"])
def test_every_network_compiles(target, algorithm):
    every = programs.network_programs(**SMALL["mappo"], rollout_length=16)
    rows = [compiled_row(each, target) for each in chosen(list(every), [f"train:{algorithm}"])]
    assert {row["program"]: row["error"] for row in rows if "error" in row} == {}


def test_programs_have_names_and_are_chosen_by_them():
    every = list(programs.all_programs(4096))
    names = {program.name for program in every}
    assert len(names) == len(every)
    assert {"play:truck_drone:flat", "play:darp:entities", "train:truck_drone_basic", "evaluate:pcb_sac"} <= names
    assert [each.name for each in chosen(every, ["reset:darp", "step:pcb"])] == ["reset:darp", "step:pcb"]
    with pytest.raises(UserError, match="--programs walk: there is none; there are play:darp"):
        chosen(every, ["step", "walk"])


def test_a_target_without_its_compiler_says_what_to_install(monkeypatch):
    target = TARGETS["h100"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=re.escape("pip install 'jax[cuda13]==")):
        target.devices()


def test_a_program_that_does_not_compile_is_a_row_that_says_so():
    def refuse():
        raise RuntimeError("no tile\nsizes")

    row = compiled_row(programs.Program("play:x", refuse, 4, 64), TARGETS["v5e"])
    assert json.loads(json.dumps(row)) == {"program": "play:x", "batch": 4, "error": "no tile sizes"}
    assert "no tile sizes" in table([row])
