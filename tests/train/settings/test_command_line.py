"""What a user gets wrong is one line that says what and how to mend it, exit status 2, and nothing left behind."""

import dataclasses
import re
import runpy
import socket
import subprocess
import sys

import pytest
import yaml

from train import evaluate, mappo, replay
from train.commands import entry, launch
from train.on_policy.config import IPPOConfig, PPOConfig
from train.run.folder import read_run
from train.run.resume import RecordedRun
from train.settings import command_line
from train.settings.config_file import shipped_names
from train.settings.stages import stages_of

SHIPPED = (
    "darp, dispatch_ride_pooling, dispatch_same_day, pcb_sac, pcb_td3, truck_drone_accelerator, truck_drone_basic, "
    "truck_drone_same_day, truck_drone_scarce, truck_drone_tours, tsp_drone, vrpd_tw"
)
NETWORK = ("network", "attention_size", "attention_heads", "attention_encode", "attention_layers")
TINY = "--num_envs 4 --num_minibatches 2 --num_devices 1 --rollout_length 8 --total_steps 32 --env.max_steps 12"

SCENARIOS = """
import jax.numpy as jnp
from jaxvrp import fields
from jaxvrp.envs.truck_drone.scenarios import TruckDroneBasic

class LongReward(TruckDroneBasic):
    def reward(self, world):
        return jnp.zeros(3, jnp.float32)

class NarrowMask(TruckDroneBasic):
    def action_mask(self, world):
        mask = super().action_mask(world)
        return {**mask, "truck": mask["truck"][:, :-1]}

class FlatObservation(TruckDroneBasic):
    def observation(self, world):
        return {name: rows.ravel() for name, rows in super().observation(world).items()}

class WholeMetric(TruckDroneBasic):
    def metrics(self, world):
        return {"served": world.customers.served.sum()}

class PythonIf(TruckDroneBasic):
    def is_terminal(self, world):
        return bool(world.step > 3)

class LongName(TruckDroneBasic):
    pass

class Holds(TruckDroneBasic):
    thing: object = fields.size(len)

class NoScenario:
    pass
"""

FACTORY = """
import jaxvrp

def fails(**parameters):
    raise RuntimeError("two\\nlines")

jaxvrp.register("fails_of_a_user", fails)
"""


@pytest.fixture
def workplace(registered_apart, tmp_path, monkeypatch):
    """An empty folder to run in, with modules of the user's; whatever else is in it later, a command left."""
    (tmp_path / "scenarios_of_a_user.py").write_text(SCENARIOS)
    (tmp_path / "factory_of_a_user.py").write_text(FACTORY)
    (tmp_path / "syntax_of_a_user.py").write_text("def broken(:\n")
    (tmp_path / "import_of_a_user.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def mistake(workplace, capfd):
    """`mistake(words)`: the one line that the command line ends with."""

    def run(words, main=mappo.main):
        before = sorted(workplace.iterdir())
        with pytest.raises(SystemExit) as stopped:
            entry.entry(lambda: main(words.split() if isinstance(words, str) else words))
        captured = capfd.readouterr()
        lines = captured.err.splitlines()
        assert stopped.value.code == 2
        assert captured.out == ""
        assert len(lines) == 1, captured.err
        assert lines[0].startswith("error: ")
        assert sorted(path for path in workplace.iterdir() if path.name != "__pycache__") == before
        return lines[0].removeprefix("error: ")

    return run


def parse(words, config_class=PPOConfig):
    argv = words.split() if isinstance(words, str) else words
    return command_line.parse(config_class, argv, prog="train.mappo", description="").config


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [1\nb: 2\n", r"given\.yaml is no valid YAML, line 2: .*; mend it there"),
        ("- 1\n- 2\n", r"given\.yaml holds list, not 'key: value' lines"),
        ("just words\n", r"given\.yaml holds str, not 'key: value' lines"),
        (b"\xff\xfe\x00", r"given\.yaml is in UTF-16; save it as UTF-8"),
        ("num_env: 3\n", r"unknown key 'num_env' in the file; did you mean 'num_envs'"),
        ("3: 4\n", r"unknown key '3' in the file"),
        (
            "seed: 1\nnum_envs: 4\nseed: 2\n",
            r"given\.yaml is no valid YAML, line 3: the key 'seed' stands twice; leave",
        ),
        ("env: {dt: 1}\nenv.dt: 2\n", r"'env\.dt' stands twice; leave one of them out"),
        ("seed: &a [1]\nnum_envs: *a\n", r"line 2: an alias, \*a; write out what it stands for; mend it there"),
        ("seed: !!python/name:os.system\n", r"line 1: a tag, tag:yaml\.org,2002:python/name:os\.system; leave it out"),
        (f"num_envs: {10**400}\n", r"num_envs is 1(0){35} \.\.\.; it must be >= 1 and <= 2147483647"),
        ("seed: 12:30:45\n", r"seed is '12:30:45'; it must be a whole number"),
        ("lr_decay: off\n", r"lr_decay is 'off'; it must be true or false"),
        ("#" * 300_000, r"given\.yaml is larger than 0\.262 MB; give a smaller file"),
        ("algorithm: ppo\n", r"given\.yaml: algorithm is 'ppo'; it must be one of: mappo, ippo, td3, sac"),
        ("algorithm: [td3]\n", r"given\.yaml: algorithm is \['td3'\]; it must be one of"),
        ("config: other.yaml\n", r"unknown key 'config' in the file"),
        ("resume: a_run\n", r"unknown key 'resume' in the file"),
        ("trust: true\n", r"unknown key 'trust' in the file"),
        ("env: {num_drone: 3}\n", r"unknown key 'env\.num_drone' in the file; did you mean 'env\.num_drones'"),
        ("env: truck_drone\n", r"env is 'truck_drone'; it must be a mapping"),
        ("env: {name: 3}\n", r"env\.name is 3; it must be a registered name"),
        ("num_envs: [4]\n", r"num_envs is \[4\]; it must be a whole number"),
        ("actor_lr:\n", r"actor_lr is None; it must be a number"),
        ("run_dir: [x]\n", r"run_dir is \['x'\]; it must be a text"),
        ("env: {num_drones: {a: 3}}\n", r"num_drones is \{'a': 3\}; it must be a whole number"),
        ("eval_env: 600\n", r"eval_env is 600; it must be a mapping, for example 'eval_env: \{max_steps: 600\}'"),
        ("eval_env: {max_step: 9}\n", r"unknown key 'eval_env\.max_step' in the file; did you mean 'eval_env\.max_st"),
        ("eval_env: {dt: fast}\n", r"eval_env\.dt is 'fast'; it must be a number"),
    ],
)
def test_a_bad_file(content, says, workplace, mistake):
    path = workplace / "given.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert re.search(says, mistake(["--config", str(path)]))


WORDS = {
    "--config nowhere.yaml": f"cannot read --config nowhere.yaml: No such file .*, or a name: {SHIPPED}$",
    "--config pcb_td3": "pcb_td3 is of algorithm td3; train with python -m train.td3$",
    "--config truck_drone": f"cannot read --config truck_drone: No such file .*, or a name: {SHIPPED}$",
    "--config .": "cannot read --config .: Is a directory",
    "--num_env 3": "unknown key 'num_env'; did you mean 'num_envs'",
    "--env.drone_sped 3": "unknown key 'env.drone_sped'; did you mean 'env.drone_speed'$",
    "--zzz 3": r"unknown key 'zzz'; none of \d+ is similar; some of them: activation, (\w+, ){3}\w+$",
    "--batch_size 3": "unknown key 'batch_size'; leave it out, or train with td3 or sac, where it is known$",
    "--lr 3": r"unknown key 'lr'; the most similar of \d+: logger, lr_decay, actor_lr$",
    "--eval_env.max_step 9": "unknown key 'eval_env.max_step'; did you mean 'eval_env.max_steps'$",
    "--env.eval_max_steps 9": "unknown key 'env.eval_max_steps'; did you mean .*'eval_env.max_steps'",
    "--eval_env.max_steps 2": "eval_env.max_steps is 2; it must be >= 3",
    "--eval_env.max_steps long": "eval_env.max_steps is 'long'; it must be a whole number",
    "--eval_env.num_drones 3": r"eval_env \(num_drones\) changes what the agents see or do; leave the sizes",
    "--eval_env 3": "unknown key 'eval_env'",
    "num_envs 4": "unrecognized arguments: num_envs 4; see python -m train.mappo --help",
    "--num_envs": "--num_envs: expected one argument",
    "--num_envs four": "num_envs is 'four'; it must be a whole number",
    "--num_envs 4.5": "num_envs is 4.5; it must be a whole number",
    "--num_envs null": "num_envs is None; it must be a whole number",
    "--num_envs true": "num_envs is True; it must be a whole number",
    "--hidden_sizes 64": "hidden_sizes is 64; it must be a list",
    "--hidden_sizes [64,wide]": "hidden_sizes is 'wide'; it must be a whole number",
    "--lr_decay maybe": "lr_decay is 'maybe'; it must be true or false",
    "--actor_lr fast": "actor_lr is 'fast'; it must be a number",
    "--num_envs 0": "num_envs is 0; it must be >= 1",
    "--actor_lr=-1e-3": "actor_lr is -0.001; it must be > 0",
    "--gamma 1.5": "gamma is 1.5; it must be >= 0 and <= 1",
    "--seed -1": "seed is -1; it must be >= 0",
    "--seed 1 --num_envs 4 --seed 1": "--seed is given twice; leave one of them out",
    "--env.dt 1 --env.dt=2": "--env.dt is given twice; leave one of them out",
    "--seed 12:30:45": "seed is '12:30:45'; it must be a whole number",
    "--lr_decay no": "lr_decay is 'no'; it must be true or false",
    f"--seed {'9' * 5000}": r"seed is '9{35} \.\.\.; it must be a whole number",
    f"--hidden_sizes {'[' * 100_000}": r"hidden_sizes is '\[{35} \.\.\.; it must be a list",
    "--hidden_sizes {a:,a:}": "hidden_sizes is '{a:,a:}'; it must be a list",
    "--actor_lr 1e39": r"actor_lr is 1e\+39; it must be >= 1e-12 and <= 1e\+12",
    "--env.dt 1e-45": r"dt is 1e-45; it must be >= 1e-12",
    f"--env.dt {10**400}": r"dt is 1(0){35} \.\.\.; it must be at most 1e\+12 in size",
    f"--num_envs {10**400}": r"num_envs is 1(0){35} \.\.\.; it must be >= 1 and <= 2147483647",
    "--total_steps 1e10 --num_envs 1": "total_steps is 10000000000.0; it must be a whole number",
    "--total_steps 10000000000 --num_envs 1 --num_minibatches 1": "num_envs 1, .* makes 10000000000 steps .*, "
    "and at most 2147483647 can be counted; lower total_steps",
    "--log_interval 2000000000": r"log_interval 2000000000\) makes 200000000000 steps .*; lower total_steps or log",
    "--total_steps 2_000_000_000 --num_envs 4 --rollout_length 4 --num_epochs 10 --num_devices 1": "5000000000 "
    "gradient steps, of which lr_decay counts at most 2147483647; lower one of them",
    "--network lstm": "network is 'lstm'; it must be one of: mlp, gru",
    "--critic global": "critic is 'global'; it must be one of: central, local",
    "--env.num_drones 0": "num_drones is 0; it must be >= 1",
    "--env.drone_speed -1": "drone_speed is -1.0; it must be >= 0",
    "--env.drone_speed .nan": "drone_speed is nan; it must be >= 0",
    "--env.dt 0": "dt is 0.0; it must be > 0",
    "--env.max_steps 2": "max_steps is 2; it must be >= 3",
    "--env.name truck_dron": "unknown environment 'truck_dron'; did you mean 'truck_drone'",
    "--env.name truck_drone_same_day": "environment 'truck_drone_same_day', which is a scenario; give its env",
    "--env.scenario truck_basic": "unknown scenario 'truck_basic'; did you mean 'truck_drone_basic'",
    "--env.scenario nowhere:Scenario": "no module 'nowhere'; run from the folder that holds it",
    "--env.scenario scenarios_of_a_user:LongRewad": "has no 'LongRewad'; did you mean 'LongReward'",
    "--env.scenario scenarios_of_a_user:NoScenario": "neither a class of scenarios nor registered",
    "--env.scenario scenarios_of_a_user:Holds": "env.thing is <built-in function len>, which the files of a run",
    "--env.scenario syntax_of_a_user:Scenario": r"SyntaxError: .*syntax_of_a_user\.py, line 1.*; mend it there",
    "--env.scenario import_of_a_user:Scenario": r"no_such_module_anywhere.*\(import_of_a_user\.py:1\)",
    "--env.name factory_of_a_user:fails": r"RuntimeError: two lines \(factory_of_a_user\.py:\d+\)",
    "--env.name subprocess:getoutput": "'subprocess:getoutput' is neither a class .* so it is not called",
    "--num_envs 6 --num_devices 1": r"6, which num_minibatches \(4\) does not divide; take num_envs 8$",
    "--num_minibatches 1000 --num_devices 1": r"num_minibatches \(1000\) does not .*; take num_minibatches 256$",
    "--num_minibatches 7 --num_devices 2": r"\(7 times 2 devices\) does not divide; take num_minibatches 8$",
    "--num_envs 9 --num_minibatches 7 --num_devices 1": "; take num_envs 7 or num_minibatches 9$",
    "--num_envs 9 --num_devices 2 --num_minibatches 1": "9, which the number of devices .2. .* take num_envs 8",
    "--network gru --chunk_length 7": r"chunk_length \(7\) does not divide; take chunk_length 5$",
    "--imitate gready --imitate_steps 9": "imitate is 'gready'; "
    "'truck_drone' has these baselines: 'greedy', 'planner'$",
    "--imitate greedy": "imitate_steps and imitate_coef are 0, so that no teacher counts; set one of them, or leave",
    "--imitate_coef 0.5": "imitate_coef is 0.5, but imitate names no teacher; set imitate to a baseline of the env",
    "--baseline group": "baseline is 'group', which needs whole episodes; set rollout to 'episodes'$",
    "--baseline group --rollout episodes --rollout_length 200": "compares episodes; set group_size to 2 or more",
    "--rollout episodes": "length is 100, but .* of 'truck_drone' have up to 200 steps; set rollout_length to 200",
    "--rollout episodes --baseline group --group_size 100 --num_devices 1": "num_envs is 256, "
    r"which group_size \(100\) does not divide; take group_size 128$",
    "--log_interval 3": r"eval_interval is 10, which log_interval \(3\) does not divide; take log_interval 2$",
    "--save_interval 15 --log_interval 10": "save_interval is 15, .*; take save_interval 20 or log_interval 5$",
    "--num_devices 99": "num_devices is 99, but there are 2 .cpu.; lower it",
    "--resume nowhere": "nowhere is no run folder: it has no readable config.yaml",
    "--resume=": "is no run folder",
    "--resume nowhere --config a.yaml": "--resume goes on .*; leave out --config; it takes total_steps, log_",
    "--resume nowhere --seed 3 --num_envz 8": "leave out --seed, --num_envz; it takes",
    "--trust": "--trust is of --resume and start_from; what is typed, .*: leave it out",
    "--resume nowhere --run_dir there": "--resume goes on .*; leave out --run_dir",
    "--num_processes 2": "--num_processes is given without --coordinator",
    "--coordinator a:1 --num_processes two --process_id 0 --run_dir x": "num_processes is 'two'; it must be",
    "--coordinator 127.0.0.1 --num_processes 2 --process_id 0 --run_dir x": "'127.0.0.1'; it must be HOST:PORT of p",
    "--coordinator a:1x --num_processes 2 --process_id 0 --run_dir x": "coordinator is 'a:1x'; it must be HOST:PORT",
    "--coordinator a:99999 --num_processes 2 --process_id 0 --run_dir x": "coordinator is 'a:99999'; it must be HOST:P",
    "--coordinator auto --process_id 0 --run_dir x": "auto finds out .*; leave out --process_id",
    "--coordinator a:1 --num_processes 2 --process_id 0": "give all of them the same --run_dir",
}


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[:70])
def test_bad_words(words, mistake):
    assert re.search(WORDS[words], mistake(words))


def test_a_port_that_another_program_has(mistake):
    with socket.create_server(("", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        says = mistake(f"--coordinator {address} --num_processes 2 --process_id 0 --run_dir x")
    assert re.match(r"coordinator: process 0 cannot have port \d+: Address already in use; give another one", says)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("LongReward", "reward"),
        ("NarrowMask", r"action_mask\['truck'\]: shape \(1, 9\), expected \(1, 10\)"),
        ("FlatObservation", r"observation\['(truck|drone)'\]: shape"),
        ("WholeMetric", r"metrics\['served'\]: dtype int32, expected float32"),
        ("PythonIf", "is_terminal raised .*use jnp"),
    ],
)
def test_a_scenario_that_breaks_the_contract(name, says, mistake):
    assert re.search(says, mistake(f"{TINY} --env.scenario scenarios_of_a_user:{name}"))


def test_two_files(workplace, mistake):
    (workplace / "given.yaml").write_text("seed: 3\n")
    assert "--config is given twice" in mistake("--config given.yaml --config given.yaml")


def test_an_unwritable_run_folder(workplace, mistake):
    (workplace / "file").write_text("mine")
    says = "cannot write the run folder file: File exists; choose another --run_dir"
    assert mistake(f"{TINY} --run_dir file") == says
    given = command_line.parse(PPOConfig, ["--run_dir", "file/below"], prog="train.mappo", description="")
    with pytest.raises(command_line.UserError, match=r"cannot write the run folder file/below: .*; choose"):
        launch.make_run_folder(given, RecordedRun(given.config, "mappo"))
    assert (workplace / "file").read_text() == "mine"


def test_a_run_folder_that_holds_something(workplace, mistake):
    (workplace / "held").mkdir()
    (workplace / "held" / "file").write_text("mine")
    assert re.match("the run folder held is not empty; choose .*--resume held", mistake(f"{TINY} --run_dir held"))
    assert [path.name for path in (workplace / "held").iterdir()] == ["file"]


def test_resume_of_a_damaged_configuration(workplace, mistake):
    config = workplace / "config.yaml"
    for content in ("algorithm: mappo\nenv: 3\n", "algorithm: mappo\nenv: {name: truck_drone}\nnum_envs: many\n"):
        config.write_text(content)
        assert re.match(r"config\.yaml: (env is 3|num_envs is 'many'); it must be", mistake("--resume ."))
    config.write_text("algorithm: mappo\nnum_envs: 4\n")
    assert re.match(r"config\.yaml: env is None; it must be", mistake("--resume ."))
    for content in ("", "algorithm: ppg\n", "[1\n", "- 1\n"):
        config.write_text(content)
        assert re.match(r"\. is no run folder", mistake("--resume ."))


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("env: {name: truck_drone, eval_max_steps: 40}", r"'env\.eval_max_steps'; did you mean .*'eval_env\.max_st"),
        ("env: {name: truck_drone}\nnum_updates: 3", r"'num_updates'; the most similar of \d+: num_devices, "),
    ],
)
def test_a_run_of_another_version_is_refused_with_its_key(key, nearest, workplace, mistake):
    (workplace / "config.yaml").write_text(f"algorithm: mappo\n{key}\n")
    message = mistake("--run .", evaluate.main)
    assert re.match(rf"config\.yaml: unknown key {nearest}.*; if another version wrote it, rename or delete", message)


IMPORTED = "import pathlib\n\npathlib.Path('imported').touch()\n"

FOREIGN = {
    "a library": "env: {name: 'subprocess:getoutput', cmd: 'touch called'}",
    "a module": "env: {name: 'foreign_module:make'}",
    "a scenario": "env: {name: truck_drone, scenario: 'foreign_module:Cls'}",
    "flat": "env.scenario: 'foreign_module:Cls'\nenv: {name: truck_drone}",
    "flat name": "env.name: 'foreign_module:make'",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize(
    ("main", "words"),
    [(mappo.main, "--resume ."), (mappo.main, "--start_from ."), (evaluate.main, "--run ."), (replay.main, "--run .")],
    ids=["resume", "start_from", "evaluate", "replay"],
)
def test_what_a_run_folder_names_by_a_dotted_path_is_not_imported(content, main, words, workplace, mistake):
    (workplace / "foreign_module.py").write_text(IMPORTED)
    (workplace / "config.yaml").write_text(f"algorithm: mappo\n{content}\n")
    says = (
        r"config\.yaml: env\.(name|scenario) is '(subprocess|foreign_module):\w+', which would be imported and run; if "
    )
    assert re.match(f"{says}you trust it, add --trust$", mistake(words, main))


@pytest.mark.parametrize("words", ["--run . --env.scenario foreign_module:Other", "--run . --env.name darp"])
def test_another_name_on_the_command_line_is_no_trust(words, workplace, mistake):
    (workplace / "foreign_module.py").write_text(IMPORTED)
    (workplace / "config.yaml").write_text(f"algorithm: mappo\n{FOREIGN['a scenario']}\n")
    assert "add --trust" in mistake(words, evaluate.main)


TRUSTED = [
    (mappo.main, "--resume . --trust", "holds no complete checkpoint"),
    (mappo.main, "--start_from . --trust", "holds no complete checkpoint"),
    (evaluate.main, "--run . --trust", "holds no complete checkpoint"),
    (replay.main, "--run . --trust", "holds no complete checkpoint"),
    (evaluate.main, "--run . --env.scenario scenarios_of_a_user:WholeMetric", r"metrics\['served'\]: dtype int32"),
]


@pytest.mark.parametrize(("main", "words", "says"), TRUSTED, ids=[words for _, words, _ in TRUSTED])
def test_what_is_trusted_or_typed_is_imported(main, words, says, workplace, mistake):
    """Each gets as far as what is wrong with that scenario, or with that folder."""
    name = "scenarios_of_a_user:WholeMetric" if "scenario" in words else "scenarios_of_a_user:LongName"
    (workplace / "config.yaml").write_text(
        f"algorithm: mappo\nnum_devices: 1\nenv: {{name: truck_drone, scenario: '{name}'}}\n"
    )
    assert re.search(says, mistake(words, main))


def test_resume_with_the_other_algorithm(workplace, mistake):
    (workplace / "config.yaml").write_text("algorithm: ippo\nenv: {name: truck_drone}\n")
    assert "is a run of ippo; go on with python -m train.ippo --resume" in mistake("--resume .")


OF_EVALUATE = {
    "": "the following arguments are required: --run; see python -m train.evaluate --help",
    "--run nowhere": "nowhere is no run folder",
    "--run . --episodes 0": "argument --episodes: '0' is no whole number above 0",
    "--run . --checkpoint worst": "argument --checkpoint: invalid choice: 'worst'",
    "--run . --sample": "unrecognized arguments: --sample",
    "--run . --render episode.txt": "--render episode.txt: the name must end in one of: .gif, .png",
    "--run . --render nowhere/episode.gif": "--render nowhere/episode.gif: there is no folder nowhere",
    "--run .": "checkpoints holds no complete checkpoint; train anew, in another --run_dir",
}


@pytest.mark.parametrize("words", OF_EVALUATE)
def test_bad_words_for_evaluate(words, workplace, mistake):
    (workplace / "config.yaml").write_text("algorithm: ippo\nenv: {name: truck_drone}\nnum_devices: 1\n")
    assert OF_EVALUATE[words] in mistake(words, evaluate.main)


@pytest.mark.parametrize(
    "words",
    [
        "train.mappo --num_envz 4",
        "train.ippo --env.num_drones 0",
        "train.td3 --tau 0",
        "train.sac --tau 0",
        "train.evaluate --run nowhere",
        "train.replay --run nowhere",
    ],
)
def test_every_module_is_a_command(words, workplace, monkeypatch, capfd):
    module, *argv = words.split()
    monkeypatch.setattr(sys, "argv", [module, *argv])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as stopped:
        runpy.run_module(module, run_name="__main__")
    assert stopped.value.code == 2
    assert re.fullmatch(r"error: [^\n]*\n", capfd.readouterr().err)


def test_exit_status_of_a_process(tmp_path):
    words = [sys.executable, "-m", "train.mappo", "--num_envz", "4"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(r"error: unknown key 'num_envz'; did you mean 'num_envs'\n", done.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["truck_drone_basic", "truck_drone_basic.yaml"])
def test_a_shipped_file_is_found_by_its_name(given, workplace):
    """From any folder; a file of the user's that is called so goes first."""
    assert parse(["--config", given]).total_steps == 300_000
    (workplace / given).write_text("total_steps: 7\n")
    assert parse(["--config", given]).total_steps == 7


def test_shipped_files_are_listed_and_are_configurations(workplace):
    assert ", ".join(shipped_names()) == SHIPPED
    shipped = {name: parse(["--config", name]) for name in SHIPPED.split(", ") if "pcb" not in name}
    assert {config.network for config in shipped.values()} == {"attention"}
    assert shipped["truck_drone_scarce"].env["num_customers"] == 20
    for name in ("tsp_drone", "truck_drone_scarce"):
        *earlier, last = stages_of(shipped[name])
        assert all(stage.imitate for stage in earlier) and not last.imitate
        for stage in earlier:
            assert [getattr(stage, key) for key in NETWORK] == [getattr(last, key) for key in NETWORK]


def test_what_evaluation_changes(tmp_path):
    (tmp_path / "given.yaml").write_text("eval_env: {max_steps: 300, dt: 1}\n")
    config = parse(["--config", str(tmp_path / "given.yaml"), "--eval_env.dt=0.2", "--eval_env.late_penalty", "0"])
    assert config.eval_env == {"max_steps": 300, "dt": 0.2, "late_penalty": 0.0}
    assert config.env["max_steps"] == 200
    assert parse("").eval_env == {}


def test_values_of_the_command_line():
    config = parse(
        "--actor_lr 3e-4 --total_steps 1_000_000 --hidden_sizes [32,16] --num_devices null --gamma 1 --lr_decay false "
        "--network=gru --env.drone_speed 3 --env.num_drones 4"
    )
    assert (config.actor_lr, config.total_steps, config.hidden_sizes) == (3e-4, 1_000_000, (32, 16))
    assert (config.num_devices, config.lr_decay, config.network) == (None, False, "gru")
    assert isinstance(config.gamma, float)
    assert config.env["drone_speed"] == 3.0
    assert config.env["num_drones"] == 4
    assert config.env["num_customers"] == 3
    assert config == dataclasses.replace(parse(""), **{f: getattr(config, f) for f in CHANGED}, env=config.env)


CHANGED = ("actor_lr", "total_steps", "hidden_sizes", "gamma", "lr_decay", "network")


@pytest.mark.parametrize("order", ["{file} {words}", "{words} {file}"])
def test_the_command_line_goes_before_the_file(order, tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text(
        "actor_lr: 3e-4\ncritic_lr: 2e-4\nhidden_sizes: [8]\ntotal_steps: 1_000\nnum_devices: null\nseed: 5\n"
        "env: {num_drones: 3, drone_speed: 1e0}\nenv.num_customers: 7\n"
    )
    config = parse(order.format(file=f"--config {path}", words="--seed 6 --actor_lr 1e-2 --env.num_drones 1"))
    assert (config.actor_lr, config.critic_lr, config.seed, config.total_steps) == (1e-2, 2e-4, 6, 1000)
    assert config.hidden_sizes == (8,)
    assert [config.env[name] for name in ("num_drones", "drone_speed", "num_customers")] == [1, 1.0, 7]


@pytest.mark.parametrize("content", ["", "# nothing\n", "env:\n", "env: {}\n", "num_devices:\n"])
def test_a_file_that_says_nothing(content, tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text(content)
    assert parse(["--config", str(path)]) == parse("")


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("--env.name darp", "flat"),
        ("--env.name darp --network gru", "flat"),
        ("--env.name darp --network attention", "entities"),
        ("--network attention", "entities"),
        ("", "flat"),
        ("--env.observation flat", "flat"),
    ],
)
def test_an_environment_shows_what_the_network_reads(words, seen):
    assert parse(words).env["observation"] == seen


def test_a_folder_named_by_a_number(tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text("run_dir: 2026\n")
    for words in (["--run_dir", "2026"], ["--config", str(path)]):
        assert command_line.parse(PPOConfig, words, prog="train.mappo", description="").run_dir == "2026"


def test_ippo_has_the_local_critic_by_default():
    assert parse("").critic == "central"
    assert parse("", IPPOConfig).critic == "local"
    assert parse("--critic central", IPPOConfig).critic == "central"


def test_the_resolved_configuration_gives_the_same_run(tmp_path):
    words = "--actor_lr 3e-4 --hidden_sizes [8] --env.num_drones 3 --eval_env.max_steps 300 --run_dir"
    given = command_line.parse(IPPOConfig, [*words.split(), str(tmp_path / "run")], prog="train.ippo", description="")
    folder = launch.make_run_folder(given, RecordedRun(given.config, "ippo"))
    launch.begin_run(folder, RecordedRun(given.config, "ippo"))
    assert folder == tmp_path / "run"
    assert read_run(folder) == RecordedRun(given.config, "ippo")
    content = yaml.safe_load((folder / "config.yaml").read_text())
    assert content["eval_env"] == {"max_steps": 300}
    del content["algorithm"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(content))
    assert parse(["--config", str(tmp_path / "again.yaml")], IPPOConfig) == given.config


def test_runs_of_one_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = command_line.parse(PPOConfig, [], prog="train.mappo", description="")
    folders = {launch.make_run_folder(given, RecordedRun(given.config, "mappo")) for _ in range(3)}
    assert len(folders) == 3
    assert all(re.match(r"runs/mappo_truck_drone_basic_\d{4}-\d\d-\d\d_", str(folder)) for folder in folders)
