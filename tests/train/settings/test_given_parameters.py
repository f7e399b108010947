"""Only what somebody gave goes to the factory of an environment: boards from files, which no default of generated
boards goes with, from the command line, from YAML, and in evaluation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import jaxvrp
from jaxvrp import registry
from jaxvrp.envs import pcb
from jaxvrp.io.command_line import UserError
from train import evaluate
from train.off_policy.config import TD3Config
from train.run.evaluator import Evaluator
from train.run.folder import RunFolder, Trained, read_run, write_configuration
from train.run.resume import RecordedRun
from train.settings import command_line

GENERATED = {"min_parts", "max_parts"}
TINY = (
    "--num_envs 1 --num_devices 1 --rollout_length 2 --buffer_size 600 --hidden_sizes [4] --eval_episodes 2 "
    "--env.max_steps 2 --eval_env.max_steps 2 --env.rays 1 --env.mode simultaneous"
)


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    """A folder with the same two generated boards as `two.npz`, and one each as `one.npz` and `other.pcb`."""
    folder = tmp_path_factory.mktemp("boards")
    parameters = pcb.make_parameters(min_parts=2, max_parts=3)
    drawn = jax.jit(jax.vmap(lambda key: pcb.generate(key, parameters)))(jax.random.split(jax.random.key(3)))
    first, second = (jax.tree.map(lambda leaf, row=row: np.asarray(leaf[row]), drawn) for row in range(2))
    pcb.save(folder / "two.npz", pcb.stack([first, second]))
    pcb.save(folder / "one.npz", first)
    pcb.write_pcb(folder / "other.pcb", pcb.PcbFile((pcb.make_netlist(pcb.trim(second)),)))
    return folder


def parse(words):
    words = words.split() if isinstance(words, str) else words
    return command_line.parse(TD3Config, words, prog="train.td3", description="").config


def assert_same_environment(env, other):
    assert env.parameters == other.parameters
    for leaf, wanted in zip(jax.tree.leaves(env), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(leaf, wanted)


@pytest.mark.parametrize("name", ["two.npz", "one.npz", "other.pcb"])
def test_boards_from_a_file_on_the_command_line(name, boards, tmp_path):
    path = str(boards / name)
    config = parse(["--env.name", "pcb", "--env.boards", path, "--env.max_steps=7"])
    wanted = jaxvrp.make("pcb", boards=path, max_steps=7)
    assert not GENERATED & config.env.keys()
    assert config.env == {"name": "pcb", **wanted.parameters}
    assert_same_environment(jaxvrp.make(**config.env), wanted)
    write_configuration(tmp_path, RecordedRun(config, "td3"))
    again = read_run(tmp_path)
    assert again == RecordedRun(config, "td3")
    content = yaml.safe_load((tmp_path / "config.yaml").read_text())
    del content["algorithm"]
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(content))
    assert parse(["--config", str(tmp_path / "again.yaml")]) == config


def test_boards_from_several_files_in_yaml(boards, tmp_path):
    files = [str(boards / name) for name in ("one.npz", "other.pcb")]
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump({"env": {"name": "pcb", "boards": files, "rays": 4}}))
    config = parse(["--config", str(given)])
    assert_same_environment(jaxvrp.make(**config.env), jaxvrp.make("pcb", boards=files, rays=4))
    write_configuration(tmp_path, RecordedRun(config, "td3"))
    assert read_run(tmp_path).values == RecordedRun(config, "td3").values
    config = parse(["--config", str(given), "--env.boards", "generated", "--env.num_boards", "2"])
    assert config.env.keys() >= GENERATED and config.env["rays"] == 4


def test_boards_on_the_command_line_go_before_those_that_the_configuration_generates(boards):
    path = str(boards / "one.npz")
    config = parse(["--config", "pcb_td3", "--env.boards", path, "--env.max_steps", "5"])
    assert not GENERATED & config.env.keys()
    assert (config.env["boards"], config.env["max_steps"], config.env["overlap_weight"]) == (path, 5, 6.0)
    assert config.num_envs == 32
    config = parse(["--config", "pcb_td3", "--env.num_boards", "2"])
    assert (config.env["num_boards"], config.env["max_parts"]) == (2, 8)


def test_the_resolved_configuration_has_every_parameter():
    config = parse("--env.name pcb --env.num_boards 2 --env.max_parts 3")
    assert list(config.env) == ["name", *jaxvrp.make("pcb", num_boards=2, max_parts=3).parameters]
    config = parse("--env.num_drones 3")
    assert list(config.env) == ["name", "scenario", *jaxvrp.make("truck_drone").parameters]
    assert config.env["num_drones"] == 3


MISTAKES = {
    "--env.boards {boards}/one.npz --env.min_parts 2": "min_parts is of generated boards; leave it out, or boards",
    "--env.boards {boards}/none.npz": "cannot read '{boards}/none.npz': No such file or directory; give another",
    "--env.boards none.pcb": "cannot read 'none.pcb': No such file or directory; give another file",
    "--env.boards {boards}": "boards '{boards}' is neither .pcb, .nodes (Bookshelf) nor .npz",
    "--env.boards [{boards}/one.npz,{boards}/none.nodes]": "cannot read '{boards}/none.nodes': No such file",
    "--env.boards {boards}/one.npz --env.board_index 1": "board_index is 1, but there are 1 boards, from 0",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line(words, boards, tmp_path):
    """On the command line, and in a file."""
    options = iter(words.format(boards=boards).removeprefix("--env.").replace(" --env.", " ").split())
    content = ", ".join(f"{name}: {value}" for name, value in zip(options, options, strict=True))
    (tmp_path / "given.yaml").write_text(f"env: {{name: pcb, {content}}}\n")
    for given in (f"--env.name pcb {words.format(boards=boards)}", f"--config {tmp_path / 'given.yaml'}"):
        with pytest.raises(UserError) as mistake:
            parse(given)
        assert MISTAKES[words].format(boards=boards) in str(mistake.value)


GENERATED_BOARDS = "--env.num_boards 2 --env.min_parts 3"
"""The same in two tests, which share the learner."""


def run_on(folder, words):
    """Make a run folder with such boards, and nothing trained."""
    write_configuration(folder, RecordedRun(parse(f"--env.name pcb {TINY} {words}"), "td3"))


@pytest.mark.slow
def test_a_run_on_generated_boards_is_evaluated_on_those_of_a_file(
    programs_once, boards, tmp_path, monkeypatch, capsys
):
    """From the command line to the boards that are played, by whom; how, is seen with other environments."""
    run_on(tmp_path, GENERATED_BOARDS)
    path, played = str(boards / "two.npz"), []
    shown = [headline.figure for headline in registry.card_of(jaxvrp.make("pcb", boards=path)).headlines]

    def play(self, actor, best_of=1):
        played.append((self.env, actor))
        return dict.fromkeys(["return", "length", *shown], jnp.zeros(()))

    monkeypatch.setattr(Evaluator, "play", play)
    monkeypatch.setattr(RunFolder, "load", lambda self, name: Trained(self.player, {}, 1))
    evaluate.main(["--run", str(tmp_path), "--env.boards", path])
    assert "2 fixed instances, whole episodes, deterministic policy of update 1" in capsys.readouterr().out
    wanted = jaxvrp.make("pcb", boards=path, num_boards=2, max_steps=2, mode="simultaneous", rays=1)
    for env, _ in played:
        assert_same_environment(env, wanted)
    assert {type(actor).__name__ for _, actor in played} == {"TurnActor", "RandomActor"}


@pytest.mark.slow
def test_what_does_not_go_with_the_boards_is_refused_in_evaluation_too(programs_once, boards, tmp_path):
    run_on(tmp_path, GENERATED_BOARDS)
    path = str(boards / "two.npz")
    with pytest.raises(UserError, match="min_parts is of generated boards"):
        RunFolder(tmp_path, {"boards": path, "min_parts": 2})
    with pytest.raises(UserError, match=r"cannot read 'none\.npz': No such file"):
        RunFolder(tmp_path, {"boards": "none.npz"})


@pytest.mark.slow
def test_a_run_on_a_file_is_evaluated_on_generated_boards(boards, tmp_path):
    run_on(tmp_path, f"--env.boards {boards}/other.pcb")
    folder = RunFolder(tmp_path, {"boards": "generated", "num_boards": 3, "max_parts": 2})
    wanted = jaxvrp.make("pcb", num_boards=3, max_parts=2, max_steps=2, mode="simultaneous", rays=1)
    assert_same_environment(folder.player.env, wanted)
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace("other.pcb", "gone.pcb"))
    with pytest.raises(UserError, match=r"config\.yaml: cannot read '.*gone\.pcb': No such file"):
        RunFolder(tmp_path)
