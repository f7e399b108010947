"""`benchmarks.limit`: fractions of the limit, the parts of a step of any environment, and what is written."""

import json

import jax
import jax.numpy as jnp
import pytest

import jaxvrp
from benchmarks import limit
from jaxvrp.io.command_line import UserError
from train.on_policy.config import PPOConfig

MACHINE = limit.Machine(bandwidths={1000: 4e9, 5000: 1e9}, flops=1e12)


@pytest.mark.parametrize(
    ("bytes_accessed", "flops", "fraction"),
    [(1e6, 0.0, 0.5), (0.0, 1e9, 0.5), (1e6, 2e9, 1.0), (0.0, 0.0, 0.0)],
)
def test_the_scarcer_of_bandwidth_and_operations_is_the_limit(bytes_accessed, flops, fraction):
    part = limit.Part("p", [2e-3, 1e-3, 9.0], bytes_accessed, flops, footprint=1001)
    assert part.fraction(MACHINE) == pytest.approx(fraction)


@pytest.mark.parametrize(("footprint", "bandwidth"), [(1, 4e9), (1000, 4e9), (1001, 1e9), (5001, 1e9)])
def test_a_program_is_held_against_a_copy_of_its_size(footprint, bandwidth):
    assert MACHINE.bandwidth(footprint) == bandwidth


def test_a_copy_passes_over_all_of_it():
    part, run = limit.compiled_part("copy", limit.copied, jnp.zeros(1024))
    run()
    assert jnp.all(limit.copied(jnp.arange(3.0)) == jnp.arange(3.0) + limit.COPIES)
    assert part.footprint >= 2 * 4096


def test_the_compiler_counts_a_product():
    part, run = limit.compiled_part("product", lambda a: a @ a, jnp.ones((64, 64)))
    run()
    assert part.flops == pytest.approx(2 * 64**3, rel=0.05)
    assert part.bytes_accessed >= 2 * 64 * 64 * 4


@pytest.mark.slow
def test_a_step_is_taken_apart():
    env = jaxvrp.make("darp", num_nodes=4, num_agents=2)
    functions = limit.step_functions(env, 3)
    shapes = {name: jax.eval_shape(function, *arguments) for name, (function, arguments) in functions.items()}
    state, timestep = functions["whole step"][1]
    assert jax.tree.map(jnp.shape, shapes["whole step"]) == jax.tree.map(jnp.shape, (state, timestep))
    assert shapes["mask"]["vehicle"].shape == (3, 1, 5)
    assert shapes["rules"].current_node.shape == shapes["reset"].current_node.shape == (3,)
    assert shapes["observation"]["vehicle"].shape == timestep.observation["vehicle"].shape


@pytest.mark.slow
def test_an_update_is_taken_apart():
    env = {"name": "darp", "num_nodes": 4, "num_agents": 2}
    config = PPOConfig(env=env, num_envs=4, rollout_length=3, hidden_sizes=(4,), num_minibatches=2)
    functions = limit.update_functions(config)
    shapes = {name: jax.eval_shape(function, *arguments) for name, (function, arguments) in functions.items()}
    params = functions["forward and backward"][1][0]
    (new_params, _), _ = shapes["optimiser"]
    for tree in (shapes["forward and backward"][0], new_params, shapes["whole update"][0].params):
        assert jax.tree.map(jnp.shape, tree) == jax.tree.map(jnp.shape, params)
    assert shapes["advantages"].advantage["vehicle"].shape == (3, 4, 1, 1)
    assert shapes["minibatch"].advantage["vehicle"].shape == (3, 2, 1)
    assert shapes["forward"][0].shape == ()


def test_backward_is_what_a_gradient_takes_beyond_forward(monkeypatch):
    names = ["whole update", "rollout", "advantages", "minibatch", "forward", "forward and backward", "optimiser"]
    parts = [limit.Part(name, [2.0**number], 2.0**number, 2.0**number, 8) for number, name in enumerate(names)]
    monkeypatch.setattr(limit, "update_functions", lambda config: {})
    monkeypatch.setattr(limit, "measured_parts", lambda *arguments: parts)
    update = limit.measured_update(PPOConfig(num_epochs=2, num_minibatches=4), 1, 0.0)
    assert [part.name for part in update] == [*names[:5], "backward", "optimiser"]
    assert [part.calls for part in update] == [1, 1, 1, 8, 8, 8, 8]
    assert (update[5].seconds, update[5].bytes_accessed, update[5].flops) == ([16.0], 16.0, 16.0)
    lines = limit.table(update, MACHINE, 2).splitlines()
    shares = [line.split("%")[0].split()[-1] for line in lines[2:9]]
    assert shares == ["100", "200", "400", "6400", "12800", "12800", "51200"]
    assert lines[-1].startswith("the parts alone take 83800% of the whole")


@pytest.mark.slow
def test_the_command_line_writes_all_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(limit, "COPIED_BYTES", (2**12, 2**13))
    monkeypatch.setattr(limit, "PRODUCT_SIZE", 8)
    path = tmp_path / "limit.json"
    words = f"--env darp --size 4,2 --batch 2 --repeats 2 --seconds 0.001 --no_update --out {path}"
    limit.main(words.split())
    result = json.loads(path.read_text())
    assert result["limits"].keys() == {"bandwidths", "flops"}
    (step,) = (parts for name, parts in result["parts"].items() if name.startswith("step of darp"))
    assert [part["name"] for part in step][:3] == ["whole step", "random actions", "rules"]
    assert all(len(part["seconds"]) == 2 for part in step)
    assert "entities" in {part["name"] for part in step}
    assert all(part["bytes_accessed"] > 0 for part in step)
    assert "of the limit" in capsys.readouterr().out


def test_mistakes_are_a_line():
    with pytest.raises(UserError, match="--sizes: '4' is not"):
        limit.main(["--env", "darp", "--size", "4"])
    with pytest.raises(UserError, match="--env: unknown environment 'dapr'"):
        limit.main(["--env", "dapr"])
    with pytest.raises(UserError, match=r"^--batch is 4000000000; it must be >= 1 and <= 2147483647$"):
        limit.main(["--batch", "4000000000"])
