"""What a user gets wrong with TD3 and SAC is one line that says what and how to mend it, and exit status 2."""

import pathlib
import re

import pytest
import yaml

from jaxvrp import fields
from train import mappo, sac, td3
from train.algorithms import ALGORITHMS
from train.commands import entry
from train.off_policy.config import SACConfig, TD3Config

CONFIG_FILES = pathlib.Path(td3.__file__).parent / "configs"
MAIN = {"td3": td3.main, "sac": sac.main, "mappo": mappo.main}
LINE_WALK = "--env.name line_walk_of_the_tests --num_devices 1"
ON_TWO_DEVICES = "--env.name line_walk_of_the_tests --num_devices 2"


@pytest.fixture
def mistake(tmp_path, monkeypatch, capfd):
    """`mistake(algorithm, words)`: the one line that the command line ends with."""
    monkeypatch.chdir(tmp_path)

    def run(algorithm, words):
        with pytest.raises(SystemExit) as stopped:
            entry.entry(lambda: MAIN[algorithm](words.split()))
        captured = capfd.readouterr()
        assert stopped.value.code == 2
        assert len(captured.err.splitlines()) == 1 and captured.out == "", captured.err
        assert not list(tmp_path.iterdir())
        return captured.err.removeprefix("error: ")

    return run


@pytest.mark.parametrize(
    ("algorithm", "words", "says"),
    [
        ("td3", "--env.name truck_drone", "role 'truck' .* has discrete actions; use mappo or ippo"),
        ("sac", "--env.name darp", "has discrete actions; use mappo or ippo"),
        ("mappo", LINE_WALK, "role 'walker' .* has continuous actions; use td3 or sac"),
        ("td3", "--policy_delai 3", "unknown key 'policy_delai'; did you mean 'policy_delay'"),
        ("sac", "--policy_delay 2", "unknown key 'policy_delay'; leave it out, or train with td3, where it is known"),
        ("mappo", "--tau 0.1", "unknown key 'tau'; leave it out, or train with td3 or sac, where it is known"),
        (
            "td3",
            "--config truck_drone_basic",
            "key 'network' in the file; leave it out, or train with mappo or ippo, w",
        ),
        ("td3", "--tau 0", "tau is 0.0; it must be > 0 and <= 1"),
        ("td3", "--activation gelu", "activation is 'gelu'; it must be one of: relu"),
        ("sac", "--initial_temperature 0", "initial_temperature is 0.0; it must be > 0"),
        ("sac", "--target_entropy low", "target_entropy is 'low'; it must be a number"),
        ("td3", f"{LINE_WALK} --gradient_steps 3", "gradient_steps is 3, which policy_delay .2. does not divide"),
        (
            "td3",
            f"{LINE_WALK} --buffer_size 500",
            "buffer_size is 500; it must hold an update and a minibatch, 768 dec",
        ),
        ("sac", f"{ON_TWO_DEVICES} --num_envs 33", "num_envs is 33, which the number of devices"),
        (
            "sac",
            f"{ON_TWO_DEVICES} --env.remembers false --batch_size 7",
            "batch_size is 7, which the number",
        ),
        ("sac", ON_TWO_DEVICES, "learns from one episode to the next, .* set num_devices to 1"),
        ("td3", f"{LINE_WALK} --save_interval 15", "save_interval is 15, which log_interval .10. does not divide"),
        ("td3", "--resume nowhere", "nowhere is no run folder"),
    ],
)
def test_bad_words(algorithm, words, says, mistake):
    assert re.search(says, mistake(algorithm, words))


def test_defaults_of_the_published_system():
    twin, soft = TD3Config(), SACConfig()
    assert twin.hidden_sizes == soft.hidden_sizes == (400, 300)
    assert (twin.batch_size, twin.actor_lr, twin.critic_lr) == (128, 1e-3, 1e-3)
    assert (twin.exploration_noise, twin.policy_noise, twin.noise_clip, twin.policy_delay) == (0.1, 0.2, 0.5, 2)
    assert (soft.batch_size, soft.actor_lr, soft.critic_lr, soft.temperature_lr) == (256, 3e-4, 3e-4, 3e-4)
    assert twin.gamma == soft.gamma == 0.99 and twin.tau == soft.tau == 0.005


@pytest.mark.parametrize("algorithm", ["td3", "sac"])
def test_the_configuration_that_is_given(algorithm):
    content = yaml.safe_load((CONFIG_FILES / f"pcb_{algorithm}.yaml").read_text())
    assert content.pop("algorithm") == algorithm
    config = fields.build(ALGORITHMS[algorithm].config_class, content, "key")
    assert config.env["name"] == "pcb"
    assert config.target_exploration_steps > 0
