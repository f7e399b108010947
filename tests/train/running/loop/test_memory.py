"""What a run needs is told before anything is made: against programs by hand, against the compiler, and in one line."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import jaxvrp
from jaxvrp.io import machine_memory
from jaxvrp.io.command_line import UserError
from train.algorithms import ALGORITHMS, make_train
from train.off_policy.config import TD3Config
from train.running.command import launch
from train.running.loop import loop, memory
from train.running.loop.memory import Size, check_environment, check_memory, fitting, loop_bytes, needed_bytes
from train.sharding import make_mesh, shard

STEPS, WIDTH = 10, 6


def walk(start, table):
    """Carries `start`, reads `table` whole and a row of it in each step, and writes three numbers in each."""
    return jax.lax.scan(lambda at, row: (at + row + table.sum(), row[:3]), start, table)


START, TABLE = jnp.zeros(WIDTH), jnp.zeros((STEPS, WIDTH))
CARRIED, READ, WRITTEN = 4 * WIDTH, 4 * STEPS * WIDTH, 4 * STEPS * 3


def test_a_loop_is_what_it_reads_carries_and_writes():
    # The table is read as a constant and as rows.
    assert loop_bytes(walk, START, TABLE) == CARRIED + 2 * READ + WRITTEN
    assert loop_bytes(jax.jit(walk), START, TABLE) == loop_bytes(walk, START, TABLE)
    shapes = jax.eval_shape(lambda: (START, TABLE))
    assert loop_bytes(walk, *shapes) == loop_bytes(walk, START, TABLE)


def test_a_batch_of_loops_is_as_many_times_as_large():
    def batch(starts, tables):
        return jax.vmap(walk)(starts, tables)

    starts, tables = (jnp.broadcast_to(array, (5, *array.shape)) for array in (START, TABLE))
    assert loop_bytes(batch, starts, tables) == 5 * loop_bytes(walk, START, TABLE)


def test_the_largest_loop_counts_wherever_it_stands():
    def within(start, table):
        def step(at, _):
            return jax.lax.cond(at[0] > 0, lambda x: walk(x, table)[0], lambda x: x, at), None

        return jax.lax.scan(step, start, length=2)[0]

    assert loop_bytes(within, START, TABLE) == loop_bytes(walk, START, TABLE)
    assert loop_bytes(lambda x: x + 1, TABLE) == 0
    up_to = lambda at: jax.lax.while_loop(lambda x: x[0] < 3, lambda x: x + 1, at)  # noqa: E731
    assert loop_bytes(up_to, START) == CARRIED


def test_every_device_has_its_own_loop():
    double = shard(walk, make_mesh(2), (P(), P()), (P(), P()))
    assert loop_bytes(double, START, TABLE) == 2 * loop_bytes(walk, START, TABLE)


def compiled_bytes(trainer):
    """What the compiler says that a chunk takes; independent of what this project counts."""
    state = jax.eval_shape(trainer.init, jax.random.key(0))
    found = trainer.train_chunk.func.lower(*trainer.train_chunk.args, state).compile().memory_analysis()
    return found.argument_size_in_bytes + found.temp_size_in_bytes


@pytest.mark.slow
def test_the_estimate_is_a_lower_bound_of_what_the_compiler_takes(config):
    trainer = make_train(config(rollout_length=48, num_envs=32, eval_episodes=1))
    assert needed_bytes(trainer) <= compiled_bytes(trainer) <= machine_memory.SAFETY * needed_bytes(trainer)


@pytest.mark.slow
def test_the_replay_is_counted():
    env = {"name": "tests.toy_environments:LineWalk"}
    small = {"num_devices": 1, "num_envs": 2, "batch_size": 4, "eval_episodes": 2, "hidden_sizes": (8,), "env": env}
    needed = [
        needed_bytes(ALGORITHMS["td3"].make_train(TD3Config(**small, buffer_size=size))) for size in (10_000, 20_000)
    ]
    role = jaxvrp.make(**env).roles
    row = sum(2 * space.observation.shape[0] + space.action.shape[0] + 2 for space in role.values())
    assert needed[1] - needed[0] == 10_000 * 4 * row


# --- what is said ---------------------------------------------------------------------------------------------------


@pytest.fixture
def little_memory(monkeypatch):
    """A machine of 100 MB."""
    monkeypatch.setattr(machine_memory, "host_bytes", lambda: 100_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"num_seeds": 10**6}, {"rollout_length": 10**6, "num_minibatches": 1}])
def test_the_value_that_is_recommended_fits_and_is_no_little_one(config, little_memory, changes):
    name, value = next(iter(changes.items()))
    asked_for = config(**changes, network="mlp")
    with pytest.raises(
        ValueError, match=f"^{name} is {value}; that takes at least .* {name} \\d+ should fit$"
    ) as caught:
        check_memory(make_train(asked_for), make_train)
    enough = int(re.search(rf"{name} (\d+) should fit", str(caught.value))[1])
    needed = needed_bytes(make_train(config(**{**changes, name: enough}, network="mlp")))
    assert 100_000_000 / machine_memory.SAFETY / 8 < needed <= 100_000_000 / machine_memory.SAFETY


def test_usual_sizes_are_not_looked_at(config, little_memory, monkeypatch):
    monkeypatch.setattr(memory, "needed_bytes", lambda learner: pytest.fail("this takes seconds"))
    check_memory(make_train(config(rollout_length=400)), make_train)


def test_an_environment_that_does_not_fit_is_refused_by_its_size(little_memory):
    check_environment(jaxvrp.make("truck_drone"))
    check_environment(jaxvrp.make("truck_drone", num_customers=1000))
    # As the class says, a drone sees 11 + 5C + 4(D - 1) + (1 + D) numbers: 5e5 for 1e5 drones.
    says = r"^env.num_drones is 100000; that takes at least 200 GB of memory, and there are 100 MB: env.num_drones 512 "
    with pytest.raises(ValueError, match=says):
        check_environment(jaxvrp.make("truck_drone", num_drones=100_000))
    check_environment(jaxvrp.make("truck_drone", num_drones=512))
    with pytest.raises(
        ValueError, match=r"^env.num_nodes is 2000000000; that takes .*: env.num_nodes 131072 should fit$"
    ):
        check_environment(jaxvrp.make("darp", num_nodes=2 * 10**9))


def test_a_size_that_is_not_to_blame_is_not_recommended():
    size = Size("rate", 1000, 10)
    assert fitting(size, 8_000, 1_000, lambda value: 8_000) is None
    assert fitting(size, 8_000, 1_000, lambda value: None) is None
    assert fitting(size, 1_000 * 8, 1_000, lambda value: 8 * value) == 8, "the largest power of two below 1000 / 8 / 8"
    assert fitting(size, 1_000**2, 10**5, lambda value: value**2) == 64


def test_a_command_that_asks_for_too_much_leaves_no_folder(little_memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = "--env.name toy_of_the_tests --num_devices 1 --hidden_sizes [8] --num_envs 4 --rollout_length 8"
    with pytest.raises(UserError, match=r"^num_envs is 100000000; that takes at least .*: num_envs \d+ should fit$"):
        launch.main("mappo", [*tiny.replace("num_envs 4", "num_envs 100000000").split()])
    with pytest.raises(UserError, match=r"^eval_episodes is 1000000000; that takes at least .* should fit$"):
        launch.main("mappo", [*tiny.split(), "--eval_episodes", "1000000000"])
    monkeypatch.setattr(memory, "needed_bytes", lambda learner: 10**12)
    with pytest.raises(UserError, match=r"^num_seeds is 1000; that takes at least 1 TB .* 100 MB: lower num_seeds$"):
        launch.main("mappo", [*tiny.split(), "--num_seeds", "1000"])
    assert not list(tmp_path.iterdir())


def test_a_device_without_room_is_one_line(tmp_path, monkeypatch):
    def run(*_, **__):
        raise jax.errors.JaxRuntimeError(problem)

    monkeypatch.setattr(loop, "run", run)
    tiny = "--env.name toy_of_the_tests --num_devices 1 --num_envs 4"
    problem = "RESOURCE_EXHAUSTED: Out of memory allocating 400000000000 bytes.\nmore"
    with pytest.raises(
        UserError, match=r"^out of memory \(RESOURCE_EXHAUSTED: .* bytes\.\); lower num_envs or another"
    ):
        launch.main("mappo", [*tiny.split(), "--run_dir", str(tmp_path / "a")])
    problem = "INTERNAL: a bug"
    with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
        launch.main("mappo", [*tiny.split(), "--run_dir", str(tmp_path / "b")])


def test_sizes_are_those_on_which_arrays_depend(config):
    names = {size.name for size in memory.configuration_sizes(config())}
    assert {"num_seeds", "num_envs", "rollout_length", "hidden_sizes", "eval_episodes", "log_interval"} <= names
    assert not names & {"seed", "total_steps", "gamma", "num_devices", "network", "lr_decay"}
    found = {size.name: size for size in memory.environment_sizes(jaxvrp.make("truck_drone", num_drones=5))}
    assert found["env.num_drones"] == ("env.num_drones", 5, 2) and found["env.num_drones"].growth == 2.5
    assert "env.dt" not in found
