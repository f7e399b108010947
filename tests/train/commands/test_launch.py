"""What a command line says when a device has no room left."""

import jax
import pytest

from jaxvrp.io.command_line import UserError
from train.commands import launch
from train.run import loop


def test_a_device_without_room_is_one_line(tmp_path, monkeypatch):
    def run(*_, **__):
        raise jax.errors.JaxRuntimeError(problem)

    monkeypatch.setattr(loop, "run", run)
    tiny = "--env.name toy_of_the_tests --num_devices 1 --num_envs 4"
    problem = "RESOURCE_EXHAUSTED: Out of memory allocating 400000000000 bytes.\nmore"
    with pytest.raises(
        UserError, match=r"^out of memory \(RESOURCE_EXHAUSTED: .* bytes\.\); lower the number of environments"
    ):
        launch.main("mappo", [*tiny.split(), "--run_dir", str(tmp_path / "a")])
    problem = "INTERNAL: a bug"
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        launch.main("mappo", [*tiny.split(), "--run_dir", str(tmp_path / "b")])
