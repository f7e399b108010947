"""Policies alone: exported from runs, found by name, and those that are shipped play as their cards say."""

import errno
import json
import pathlib
import shlex
import tomllib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxvrp
import train
from jaxvrp.io.command_line import UserError
from jaxvrp.policies import folder as policies
from tests.toy_environments import TINY
from train import export
from train.algorithms import ALGORITHMS, make_train
from train.commands import launch
from train.on_policy.rollout import Rollout
from train.run.checkpoint import Checkpoints
from train.run.evaluator import Evaluator
from train.run.folder import CHECKPOINTS, RunFolder, write_configuration
from train.run.resume import RecordedRun, resumed
from train.settings import command_line

LARGEST = 2_000_000
"""Bytes of a policy that is shipped."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of two seeds that has saved the state that it began with."""
    algorithm = ALGORITHMS["mappo"]
    learner = make_train(algorithm.config_class(**TINY, num_seeds=2))
    folder = tmp_path_factory.mktemp("runs") / "run"
    folder.mkdir()
    recorded = RecordedRun(learner.config, "mappo")
    write_configuration(folder, recorded)
    Checkpoints(folder / CHECKPOINTS).save(1, learner.init(jax.random.key(0)), 0.0, recorded.values)
    return folder


@pytest.fixture(scope="module")
def exported(run):
    """The folder of its policy."""
    out = run.parent / "small"
    export.main([str(run), str(out), "--about", "a toy", "--episodes", "3"])
    return out


@pytest.mark.slow
def test_a_policy_is_the_actors_of_its_run_and_nothing_else(run, exported):
    trained, policy = RunFolder(run).load("latest"), RunFolder(exported).load("latest")
    chex.assert_trees_all_equal(policy.params, jax.tree.map(lambda leaf: leaf[0], trained.params))
    assert (policy.update, policy.learner.config.num_seeds) == (1, 1)
    assert sorted(path.name for path in exported.iterdir()) == ["actor.npz", "config.yaml", "policy.json"]
    with np.load(exported / "actor.npz", allow_pickle=False) as arrays:
        assert sum(array.size for array in arrays.values()) == sum(leaf.size for leaf in jax.tree.leaves(policy.params))
    card = policies.read_card(exported)
    evaluator = Evaluator(policy.learner.env, 3, policy.learner.config.eval_seed)
    play = jax.jit(lambda: evaluator.play(policy.learner.actor(policy.params, deterministic=True)))
    assert card.figures["players"]["policy"]["return"] == pytest.approx(float(play()["return"]), rel=1e-6)
    assert (card.about, card.training["env_steps"]) == ("a toy", 32)
    assert card.figures["command"] == "python -m train.evaluate --run small --episodes 3"


def test_a_policy_is_read_without_beginning_an_episode(exported, monkeypatch):
    def no_reset(*_):
        raise AssertionError("an episode begins")

    monkeypatch.setattr(Rollout, "reset", no_reset)
    trained = RunFolder(exported).load("latest")
    shapes = jax.tree.map(jnp.shape, trained.params)
    assert shapes == jax.tree.map(jnp.shape, jax.eval_shape(trained.learner.init_actors, jax.random.key(0)))
    with pytest.raises(AssertionError, match="an episode begins"):
        _ = trained.learner.init


@pytest.mark.slow
def test_what_it_was_trained_by_is_what_to_type(run):
    recorded = RunFolder(run).recorded
    python, module, program, *words = shlex.split(export.training_command(recorded, None))
    assert (python, module, program) == ("python", "-m", "train.mappo")
    parsed = command_line.parse(type(recorded.config), words, prog=program, description="").config
    values, wanted = RecordedRun(parsed, "mappo").values, recorded.values
    assert values == {**wanted, "env": {**values["env"], **wanted["env"]}}
    assert jaxvrp.make(**values["env"]) == jaxvrp.make(**wanted["env"])
    with pytest.raises(UserError, match="cannot read --config nowhere"):
        export.training_command(recorded, "nowhere")


def test_a_resumed_run_was_trained_by_several_commands(run):
    recorded = RunFolder(run).recorded  # an update of 32 steps
    longer = resumed(recorded, {"eval_interval": 2, "total_steps": 96}, 1)
    longest = resumed(longer, {"total_steps": 192}, 2)
    first = export.training_command(recorded, None)
    second = "python -m train.mappo --resume run --eval_interval 2 --total_steps 96"
    third = "python -m train.mappo --resume run --total_steps 192"
    assert export.training_commands(longest, None, 1) == first, "changes came after it"
    assert export.training_commands(longest, None, 2) == f"{first} --run_dir run, then {second}"
    wanted = f"{first} --run_dir run, then {second}, stopped at update 2, then {third}"
    assert export.training_commands(longest, None, 6) == wanted
    logged = resumed(recorded, {"logger": []}, 1)
    assert export.training_commands(logged, None, 2) == export.training_command(logged, None)


def test_a_policy_that_is_exported_again_was_trained_as_before(exported, tmp_path, capsys):
    card = policies.read_card(exported)
    for path in exported.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged_card(tmp_path, training={**card.training, "command": "several commands"})
    again = tmp_path / "again"
    export.main([str(tmp_path), str(again), "--episodes", "2"])
    assert policies.read_card(again).training == {**card.training, "command": "several commands"}
    assert capsys.readouterr().out.endswith("trained by several commands\n")
    with pytest.raises(UserError, match=r"is a policy, whose card says what it was trained by; leave --config out"):
        export.main([str(tmp_path), str(tmp_path / "more"), "--config", "darp"])


def test_a_policy_of_continuous_actions_is_played_by_its_learner(tmp_path):
    small = {"num_envs": 4, "num_devices": 1, "hidden_sizes": (8,), "eval_episodes": 4}
    learner = make_train(ALGORITHMS["sac"].config_class(env={"name": "line_walk_of_the_tests"}, **small))
    recorded, run, out = RecordedRun(learner.config, "sac"), tmp_path / "run", tmp_path / "policy"
    run.mkdir()
    write_configuration(run, recorded)
    Checkpoints(run / CHECKPOINTS).save(10, learner.init(jax.random.key(0)), 0.0, recorded.values)
    export.main([str(run), str(out)])
    with pytest.raises(ValueError, match=r"trained by sac, and only .* mappo and ippo are loaded; train\.RunFolder"):
        jaxvrp.load_policy(out)
    policy = train.RunFolder(str(out)).load("latest")
    actor = policy.learner.actor(policy.params, deterministic=True)
    figures = jax.jit(lambda: Evaluator(policy.learner.evaluation_env, 4, learner.config.eval_seed).play(actor))()
    wanted = policies.read_card(out).figures["players"]["policy"]["return"]
    assert float(figures["return"]) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_another_run_begins_with_it(exported):
    config = ALGORITHMS["mappo"].config_class(**{**TINY, "start_from": str(exported)})
    learner = make_train(config)
    state = launch.beginning(learner, exported, trust=False)(learner.init(jax.random.key(3)))
    chex.assert_trees_all_equal(learner.actor_params(state), RunFolder(exported).load("latest").params)


@pytest.mark.slow
def test_a_folder_goes_before_the_policy_of_its_name(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(policies, "SHIPPED", exported.parent)
    assert policies.shipped_policies() == ["small"]
    assert policies.find_run("small") == exported
    assert RunFolder("small").load("latest").update == 1
    (tmp_path / "small").mkdir()
    assert policies.find_run("small") == pathlib.Path("small")
    with pytest.raises(UserError, match=r"^small is no run folder: it has no readable config\.yaml"):
        RunFolder("small")
    with pytest.raises(UserError, match=r"^smal is no run folder, and no policy .* is shipped; did you mean 'small'$"):
        RunFolder("smal")


def test_a_program_is_the_policy_of_the_first_seed(run, exported, tmp_path, capsys):
    out = tmp_path / "policy.jaxpolicy"
    for words in ([str(run), str(out), "--about", "a program"], [str(run), str(out)]):  # a file is written over
        export.main(words)
    assert f"wrote {out}: " in capsys.readouterr().out
    program, policy = jaxvrp.load_policy(out), jaxvrp.load_policy(exported)
    assert (program.env, policy.about) == (policy.env, "a toy")
    state, _ = jax.jit(jax.vmap(policy.env.reset))(jax.random.split(jax.random.key(0), 5))
    chex.assert_trees_all_equal(*(each.act(state, jax.random.key(1)) for each in (program, policy)))
    with pytest.raises(UserError, match=r"--config and --episodes are of a folder, and .* will be a file; leave them"):
        export.main([str(run), str(out), "--episodes", "3"])
    with pytest.raises(UserError, match=r"^OUT .*policy\.jaxpolicy: there is no folder .*nowhere; make it first$"):
        export.main([str(run), str(tmp_path / "nowhere" / "policy.jaxpolicy")])


def test_a_full_disk_is_known_before_the_policy_plays(tmp_path, monkeypatch):
    def full(partial, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    monkeypatch.setattr(export, "measured", lambda *_: pytest.fail("it plays"))
    out = tmp_path / "new" / "policy"
    with pytest.raises(UserError, match=rf"^cannot write {out}: No space left on device; choose another folder$"):
        export.main(["truck_drone_basic", str(out)])
    assert list(tmp_path.iterdir()) == []


def damaged_card(folder, **changes):
    path = folder / "policy.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def widened(folder):
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("- 8", "- 4"))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "actor.npz").write_bytes(b"PK"), "actor.npz was changed; export the policy anew"),
        (
            lambda folder: (folder / "actor.npz").unlink(),
            "actor.npz: No such file or directory; export",
        ),
        (widened, "config.yaml was changed; export the policy anew"),
        (lambda folder: damaged_card(folder, version=2), "another version wrote it (2, not 1)"),
        (lambda folder: damaged_card(folder, more=2), "policy.json is no card of a policy"),
        (lambda folder: damaged_card(folder, training={}), "policy.json is no card of a policy"),
        (lambda folder: (folder / "policy.json").write_text("{"), "policy.json is no JSON"),
        (
            lambda folder: (widened(folder), damaged_card(folder, checksums={})),
            "does not fit the configuration beside it; export the policy anew",
        ),
    ],
)
def test_damage_is_one_line(damage, says, exported, tmp_path):
    for path in exported.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damage(tmp_path)
    with pytest.raises(UserError) as error:
        RunFolder(tmp_path).load("latest")
    assert says in str(error.value) and "\n" not in str(error.value)


def test_other_mistakes_are_one_line(run, exported, tmp_path):
    with pytest.raises(UserError, match="is no new or empty folder; give another one, or a file"):
        export.main([str(run), str(exported)])
    with pytest.raises(UserError, match="holds a policy, and no checkpoints; leave --checkpoint best out"):
        RunFolder(exported).load("best")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*: Not a directory; choose another folder"):
        export.main([str(run), str(tmp_path / "file" / "policy")])


def test_policies_are_part_of_the_package():
    root = pathlib.Path(__file__).parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["jaxvrp"]
    packed = {path for pattern in patterns for path in (root / "jaxvrp").glob(pattern)}
    assert {path for path in policies.SHIPPED.rglob("*") if path.is_file()} <= packed
    named = {"truck_drone_basic", "truck_drone_same_day", "truck_drone_tours", "darp", "tsp_drone", "vrpd_tw"}
    assert named <= set(policies.shipped_policies())


SLOW = set(policies.shipped_policies()) - {"truck_drone_basic"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in policies.shipped_policies()],
)
def test_a_shipped_policy_plays_as_its_card_says(name):
    """Not the instances of its card, but better than the means of the others there."""
    folder = policies.find_run(name)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LARGEST
    card, run = policies.read_card(folder), RunFolder(name)
    trained = run.load("latest")
    learner = trained.learner
    evaluator = Evaluator(learner.evaluation_env, 16, 5)
    play = jax.jit(lambda: evaluator.play(learner.actor(trained.params, deterministic=True)))
    wanted, *others = [figures["return"] for figures in card.figures["players"].values()]
    assert max(others) < float(play()["return"])
    assert max(others) < wanted
    assert card.figures["instances"] == 512
    assert card.figures["command"].startswith(f"python -m train.evaluate --run {name}")
    program, *words = shlex.split(card.training["command"])[2:]
    assert program == f"train.{run.recorded.algorithm}"
    parsed = command_line.parse(type(run.recorded.config), words, prog=program, description="").config
    # Whole: the environment may have parameters now that it had not when the policy was trained.
    whole, _ = command_line.build_config(type(parsed), vars(run.recorded.config), complete=True)
    assert RecordedRun(parsed, program).values == RecordedRun(whole, program).values
