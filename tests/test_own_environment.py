"""An environment in a package of one's own has all that the shipped ones have, by one line: nothing here is touched."""

import json
import shutil
import subprocess
import sys
import textwrap

import jax
import pytest

import jaxvrp
from jaxvrp import registry
from jaxvrp.io.command_line import UserError
from jaxvrp.show.__main__ import main as draw_page
from train import solve

RULES = '''
    """Beads on a string are pushed to the right: the fewer steps it takes, the better."""

    import jax
    import jax.numpy as jnp
    from flax import struct

    import jaxvrp
    from jaxvrp import Environment, Role
    from jaxvrp.fields import build, parameter, size
    from jaxvrp.notebook import NotebookStill
    from jaxvrp.spaces import Box, Discrete


    class Beads(NotebookStill, struct.PyTreeNode):
        goal: jax.Array
        place: jax.Array
        step: jax.Array


    class Abacus(Environment):
        num_beads: int = size(3, help="beads")
        max_steps: int = size(8, help="length of an episode", unit="steps")
        step_cost: float = parameter(0.1, minimum=0.0, help="of every step")

        @property
        def roles(self):
            return {"bead": Role(self.num_beads, Box(0.0, 1.0, (2,)), Discrete(2))}

        @property
        def max_episode_steps(self):
            return self.max_steps

        def generate(self, key):
            return jax.random.randint(key, (self.num_beads,), 1, 4, jnp.int32)

        def init_state(self, instance):
            return Beads(instance, jnp.zeros(self.num_beads, jnp.int32), jnp.zeros((), jnp.int32))

        def transition(self, state, action, num_invalid):
            return state.replace(place=state.place + action["bead"], step=state.step + 1)

        def observation(self, state):
            return {"bead": jnp.stack([state.place, state.goal], axis=1).astype(jnp.float32) / 4}

        def global_observation(self, state):
            return self.observation(state)["bead"].ravel()

        def action_mask(self, state):
            return {"bead": jnp.stack([jnp.ones(self.num_beads, bool), state.place < state.goal], axis=1)}

        def reward(self, state):
            return {"bead": jnp.full(self.num_beads, -self.step_cost, jnp.float32)}

        def is_terminal(self, state):
            return (state.place == state.goal).all() | (state.step >= self.max_steps)

        def metrics(self, state):
            return {"counted": jnp.mean(state.place == state.goal, dtype=jnp.float32)}


    def make(**parameters):
        return build(Abacus, parameters, "parameter of 'abacus':")


    jaxvrp.register("abacus", make, toolbox="abacus_package.toolbox:TOOLBOX")
'''

TOOLBOX = '''
    """What belongs to the abacus beside its rules."""

    import json
    from pathlib import Path

    import jax
    import jax.numpy as jnp
    import numpy as np

    from jaxvrp import Headline, Problems, Toolbox, View
    from jaxvrp.show.common import as_json, common_entries
    from jaxvrp.show.drawing.paper import new_paper
    from jaxvrp.show.drawing.stills import Still
    from jaxvrp.io.schema import list_of, number, object_with


    class PushActor:
        def __init__(self, env):
            pass

        def init(self, num_envs):
            return ()

        def act(self, key, carry, state, timestep):
            return {"bead": timestep.action_mask["bead"][..., 1].astype(jnp.int32)}, carry


    def draw(episode, path, problem):
        paper = new_paper(3, 2, 50)
        paper.axes(0.5, 0.5, 2, 1).plot(np.asarray(episode.states.place))
        path = Path(path)
        paper.figure.savefig(path, format="png" if path.suffix == ".png" else "gif" if path.suffix == ".gif" else None)


    def export(episode, problem):
        names = {"bead": ["STAY", "PUSH"]}
        entries = [{"places": as_json(places)} for places in episode.states.place]
        about = {"kind": "abacus", "title": "Abacus", "action_names": names, "step_entries": entries}
        return common_entries(episode, **about)


    def check(episode):
        object_with(steps=list_of(object_with(places=list_of(number))))(episode, "")


    def draw_state(state):
        still = Still(np.array([[0, 0], [1, 1]]))
        still.caption = f"beads at {np.asarray(state.place).tolist()}"
        return still


    class AbacusProblems(Problems):
        def read(self, path, **given):
            return [np.array(goal, np.int32) for goal in json.loads(Path(path).read_text())]

        def parameters(self, problem, env):
            return {"num_beads": len(problem)}

        def plan(self, problem, episode):
            return {"feasible": True, "routes": {"beads": episode.states.place[-1].tolist()}}


    TOOLBOX = Toolbox(
        baselines={"push": PushActor},
        headlines=(Headline("counted", "beads counted", mean_name="counted_share", curve="counted", progress="beads"),),
        view=View(export, check, Path(__file__).with_name("view.js"), draw),
        still=draw_state,
        evaluation={"max_steps": 12},
        problems=AbacusProblems(),
    )
'''

SCRIPT = "VIEWS.abacus = (seek) => abacusView(seek);"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The folder of the package `abacus_package`, on the path; the registry is as before in the end."""
    folder = tmp_path_factory.mktemp("own") / "abacus_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "rules.py").write_text(textwrap.dedent(RULES))
    (folder / "toolbox.py").write_text(textwrap.dedent(TOOLBOX))
    (folder / "view.js").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder.parent)
        patch.setattr(registry, "_ENTRIES", {kind: dict(names) for kind, names in registry._ENTRIES.items()})
        yield folder
    for name in [name for name in sys.modules if name.startswith("abacus_package")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def run(package):
    """A tiny training run on it, by the command line; what it printed lies beside it."""
    import contextlib
    import io

    from train import mappo

    folder, printed = package.parent / "run", io.StringIO()
    words = "--env.name abacus_package.rules:make --env.num_beads 2 --total_steps 512 --num_envs 8 --rollout_length 16"
    words += (
        " --num_minibatches 2 --hidden_sizes [8] --eval_episodes 16 --num_devices 1 --eval_interval 2 --save_interval 4"
    )
    with contextlib.redirect_stdout(printed):
        mappo.main([*words.split(), "--run_dir", str(folder)])
    (folder / "printed.txt").write_text(printed.getvalue())
    return folder


def test_its_toolbox_is_found_from_the_environment_and_from_its_states(package):
    env = jaxvrp.make("abacus_package.rules:make", num_beads=2)
    assert list(registry.players_of(env).baselines) == ["push"]
    assert "abacus" in jaxvrp.registered()
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    assert state._repr_html_().endswith("<figcaption>beads at [0, 0]</figcaption></figure>")
    assert registry.toolbox_of(jaxvrp.make("darp")) is not registry.toolbox_of(env)


def test_its_problems_are_read_solved_and_their_plans_written(package, tmp_path, capsys):
    jaxvrp.make("abacus_package.rules:make")  # its module registers the name
    file, out = tmp_path / "goals.json", tmp_path / "plan.json"
    file.write_text("[[1, 2], [2, 3, 1]]")
    solve.main([str(file), "--env", "abacus", "--index", "1", "--method", "push", "--out", str(out)])
    assert json.loads(out.read_text())["routes"] == {"beads": [2, 3, 1]}
    with pytest.raises(UserError, match=r"plan.csv: the name must end in one of: .json, .html"):
        solve.main([str(file), "--env", "abacus", "--index", "1", "--out", str(tmp_path / "plan.csv")])


@pytest.mark.slow
def test_many_files_are_read_by_the_environment_of_a_run(package, run, tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.json").write_text("[[1, 2]]")
    words = [str(tmp_path), "--run", str(run), "--trust", "--seconds", "0.1", "--out", str(tmp_path / "plans")]
    # In a process that has not imported the package.
    subprocess.run([sys.executable, "-m", "train.solve", *words], cwd=package.parent, check=True, timeout=300)
    assert len(list((tmp_path / "plans").glob("*.json.json"))) == 2
    files = [str(tmp_path / f"{name}.json") for name in ("first", "second")]
    code = f"from train import solve; print(len(solve.solve_all({files}, run={str(run)!r}, trust=True, seconds=0.1)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=package.parent, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == "2"


@pytest.mark.slow
def test_training_shows_its_headlines_and_its_baseline(run):
    head, _, *rows = (run / "printed.txt").read_text().strip().splitlines()[2:]
    assert head.split() == ["return", "beads", "counted", "steps"]
    assert [row.split()[0] for row in rows[:3]] == ["policy", "push", "random"]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["push"]["counted_share"] == 1.0
    assert 0 < summary["random"]["length"] <= 12
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert "counted_share" in {name.removeprefix("eval/") for name in records[-1]}
    assert records[-1]["env/counted"] > 0


@pytest.mark.slow
def test_training_leaves_its_pictures(run):
    assert (run / "episode.png").read_bytes()[:4] == b"\x89PNG"
    assert (run / "episode.gif").read_bytes()[:3] == b"GIF"
    assert (run / "learning_curve.png").stat().st_size > 5000


@pytest.mark.slow
def test_training_leaves_no_pictures_where_none_are_wanted(run, tmp_path):
    from train import mappo

    longer = tmp_path / "longer"
    shutil.copytree(run, longer, ignore=shutil.ignore_patterns("*.png", "*.gif"))
    mappo.main(["--resume", str(longer), "--trust", "--total_steps", "640", "--pictures", "false"])
    assert {path.name for path in longer.iterdir() if path.suffix in (".png", ".gif")} == {"learning_curve.png"}


@pytest.mark.slow
def test_evaluation_has_its_own_length_and_may_be_changed(run, capsys):
    from train import evaluate

    config = (run / "config.yaml").read_text()
    assert "eval_env:\n  max_steps: 12" in config
    evaluate.main(["--run", str(run), "--env.name", "abacus_package.rules:make"])
    assert "beads counted" in capsys.readouterr().out


@pytest.mark.slow
def test_its_episodes_become_a_page_with_its_script(run, capsys):
    from train import replay

    replay.main(["--run", str(run), "--trust", "--instance", "1"])
    page = (run / "episode_1.html").read_text()
    assert SCRIPT in page and "VIEWS.darp" not in page
    episode = json.loads((run / "episode_1.json").read_text())
    assert (episode["kind"], episode["steps"][0]["places"]) == ("abacus", [0, 0])
    assert draw_page([str(run / "episode_1.json"), "-o", str(run / "again.html")]) == 0
    assert (run / "again.html").read_text().count(SCRIPT) == 1
    del episode["steps"][0]["places"]
    (run / "broken.json").write_text(json.dumps(episode))
    capsys.readouterr()
    assert draw_page([str(run / "broken.json")]) == 2
    assert "steps[0].places is missing" in capsys.readouterr().err


class Bare:
    """Of no environment that is registered."""


def test_where_there_is_no_toolbox_there_is_an_empty_one():
    assert registry.toolbox_of(Bare()) == jaxvrp.Toolbox()


def test_what_is_no_toolbox_is_refused(package):
    with pytest.raises(TypeError, match=r"toolbox is 3; give a jaxvrp.Toolbox, or a dotted path"):
        jaxvrp.register("no_toolbox", Bare, toolbox=3)
    jaxvrp.register("lost_toolbox", Bare, toolbox="abacus_package.toolbox:TOOLBAX")
    with pytest.raises(ValueError, match="has no 'TOOLBAX'; did you mean 'TOOLBOX'"):
        registry.toolbox_of(Bare())
    jaxvrp.register("lost_toolbox", Bare, toolbox="abacus_package.toolbox:PushActor")
    with pytest.raises(ValueError, match=r"PushActor' is no jaxvrp\.Toolbox"):
        registry.toolbox_of(Bare())
