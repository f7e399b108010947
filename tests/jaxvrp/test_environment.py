"""The environment contract as composed in `jaxvrp.environment`, and the choice of legal actions."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxvrp import Environment, VecEnv, make, randomize
from jaxvrp.actor import RandomActor, sample_masked
from jaxvrp.entities import seen_as
from jaxvrp.environment import select
from jaxvrp.spaces import agent_names
from jaxvrp.testing import check_env, check_shapes

KEY = jax.random.key(3)
INT32 = np.iinfo(np.int32)


def acting(truck=0, drone=(0, 0), dtype=np.int32):
    return {"truck": np.array([truck], dtype), "drone": np.array(drone, dtype)}


def uncounted(state):
    return state.replace(totals=state.totals.replace(invalid_actions=jnp.zeros((), jnp.int32)))


def test_reset_is_generate_then_reset_to(env, reset):
    state, timestep = reset(KEY)
    again = jax.jit(lambda key: env.reset_to(env.generate(key)))(KEY)
    chex.assert_trees_all_equal((state, timestep), again)
    for field in ("observation", "global_observation", "action_mask", "metrics", "valid"):
        chex.assert_trees_all_close(getattr(timestep, field), getattr(env, field)(state), rtol=1e-6)
    chex.assert_trees_all_equal(timestep.reward, {"truck": jnp.zeros(1), "drone": jnp.zeros(2)})
    assert timestep.duration == 0
    assert not timestep.done


def test_roles_name_the_agents(env):
    assert list(env.roles) == ["truck", "drone"]
    assert agent_names(env.roles) == {"truck": ["truck_0"], "drone": ["drone_0", "drone_1"]}
    assert [role.action.num_actions for role in env.roles.values()] == [1 + 3 + 2 * 2, 2 + 2]


ILLEGAL = {
    "truck below": (acting(truck=-1), 1),
    "truck above": (acting(truck=8), 1),
    "truck recovers nobody": (acting(truck=6), 1),
    "drone above": (acting(drone=(0, 4)), 1),
    "drones deliver on board": (acting(drone=(2, 3)), 2),
    "smallest": (acting(truck=INT32.min, drone=(INT32.min, 0)), 2),
    "largest": (acting(truck=INT32.max, drone=(INT32.max, INT32.max)), 3),
    "int64 that would wrap to 0": (acting(truck=2**32, dtype=np.int64), 1),
    "int64 that would wrap to 1": (acting(truck=2**40 + 1, drone=(-(2**33), 0), dtype=np.int64), 2),
    "uint64": (acting(truck=2**64 - 1, dtype=np.uint64), 1),
    "uint64 that would wrap to 0": (acting(truck=2**63, drone=(2**32, 0), dtype=np.uint64), 2),
    "beyond 64 bits": (acting(truck=10**30, drone=(-(10**30), 0), dtype=object), 2),
    "uint32 that would wrap to -1": (acting(truck=2**32 - 1, dtype=np.uint32), 1),
}


@pytest.mark.parametrize(("action", "count"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_actions_become_index_0_and_are_counted(env, reset, step, action, count):
    state, _ = reset(KEY)
    if any(array.dtype.itemsize > 4 for array in action.values()):
        step = env.step  # a caller's jit wraps int64 into int32 before the environment can see it, and takes no objects
    after, timestep = step(state, action)
    idle, _ = step(state, acting())
    chex.assert_trees_all_equal(uncounted(after), uncounted(idle))
    assert timestep.metrics["invalid_actions"] == count
    assert not timestep.done


def test_legal_actions_are_played_and_not_counted(reset, step):
    state, timestep = reset(KEY)
    assert timestep.action_mask["truck"][0].tolist() == [True] * 4 + [True, True] + [False, False]
    state, timestep = step(state, acting(truck=4))
    assert state.drones.is_airborne.tolist() == [True, False]
    state, timestep = step(state, acting(drone=(2, 0)))
    assert state.drones.carrying.tolist() == [0, -1]
    assert timestep.metrics["invalid_actions"] == 0


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, object])
def test_any_integer_dtype_is_taken(env, reset, step, dtype):
    state, _ = reset(KEY)
    wanted = step(state, acting(truck=2))
    chex.assert_trees_all_close(env.step(state, acting(truck=2, dtype=dtype)), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.int4, jnp.int8, jnp.uint8, jnp.uint16, jnp.uint32])
def test_a_compiled_step_takes_any_integer_dtype_that_reaches_it(env, reset, step, dtype):
    state, _ = reset(KEY)
    count_invalid = jax.jit(lambda state, action: env.step(state, action)[1].metrics["invalid_actions"])
    highest = acting(truck=jnp.iinfo(dtype).max if jnp.iinfo(dtype).max > 7 else 6, dtype=dtype)
    assert count_invalid(state, highest) == 1
    assert count_invalid(state, acting(truck=2, dtype=dtype)) == 0


@pytest.mark.parametrize("dtype", [bool, np.float32, jnp.bfloat16, np.complex64])
def test_a_compiled_step_refuses_all_others_when_it_is_traced(env, reset, dtype):
    state, _ = reset(KEY)
    message = rf"^action\['truck'\] has dtype {np.dtype(dtype)}; it needs int32 of shape \(1,\)"
    with pytest.raises(TypeError, match=message):
        jax.jit(env.step)(state, acting(dtype=dtype))


@pytest.mark.slow
def test_with_64_bits_an_index_is_judged_before_it_is_cast(reach):
    """`JAX_ENABLE_X64`: arrays of JAX hold what would wrap around into a legal index."""
    with jax.enable_x64(True):
        state, _ = reach.reset(KEY)
        step = jax.jit(reach.step)
        for index in (np.int64(2**32), np.int64(-(2**33)), np.int64(2**40 + 2), np.uint64(2**63)):
            action = {"mover": jnp.zeros((2, 2), jnp.float32), "caller": jnp.asarray(index[None])}
            assert action["caller"].dtype == index.dtype
            for play in (step, reach.step):
                assert play(state, action)[1].metrics["invalid_actions"] == 1
        legal = {**action, "caller": jnp.asarray([2], jnp.int64)}
        assert step(state, legal)[1].metrics["invalid_actions"] == 0


def test_lists_are_taken(env, reset, step):
    state, _ = reset(KEY)
    chex.assert_trees_all_close(
        env.step(state, {"truck": [2], "drone": [0, 0]}), step(state, acting(truck=2)), rtol=1e-6
    )


MALFORMED = {
    "missing role": ({"truck": [0]}, ValueError, r"exactly the roles \['truck', 'drone'\]; got \['truck'\]"),
    "unknown role": ({**acting(), "ship": [0]}, ValueError, r"got \['drone', 'ship', 'truck'\]"),
    "no dict": ([0, 0, 0], ValueError, "must be a dict .*; got list"),
    "too few drones": (acting(drone=(0,)), ValueError, r"action\['drone'\] has shape \(1,\); it needs \(2,\)"),
    "scalar truck": ({**acting(), "truck": 0}, ValueError, r"action\['truck'\] has shape \(\); it needs \(1,\)"),
    "one-hot": ({**acting(), "drone": np.eye(2, 4, dtype=int)}, ValueError, r"has shape \(2, 4\); it needs \(2,\)"),
    "float": (
        acting(dtype=np.float32),
        TypeError,
        r"action\['truck'\] has dtype float32; it needs int32 of shape \(1,\)",
    ),
    "bool": (acting(dtype=bool), TypeError, r"action\['truck'\] has dtype bool; it needs int32"),
    "text": (
        {**acting(), "drone": ["HOVER", "RETURN"]},
        TypeError,
        r"action\['drone'\] is \['HOVER', 'RETURN'\]; it needs int32 of shape \(2,\)",
    ),
    "nothing": ({**acting(), "drone": None}, TypeError, r"action\['drone'\] is None; it needs int32"),
    "nothing for one": (
        {**acting(), "drone": [0, None]},
        TypeError,
        r"action\['drone'\] is \[0, None\]; it needs int32",
    ),
    "rows of two lengths": (
        {**acting(), "drone": [[0], [0, 1]]},
        ValueError,
        r"action\['drone'\] is \[\[0\], \[0, 1\]\]; it needs to be one array",
    ),
    "spans of time": (
        acting(dtype="m8[s]"),
        TypeError,
        r"action\['truck'\] has dtype timedelta64\[s\]; it needs int32",
    ),
    "roles of two kinds": ({**acting(), 3: [0]}, ValueError, r"got \['3', 'drone', 'truck'\]"),
}


@pytest.mark.parametrize(("action", "error", "message"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_actions_are_refused_in_one_line(env, reset, action, error, message):
    state, _ = reset(KEY)
    with pytest.raises(error, match=message) as caught:
        env.step(state, action)
    assert "\n" not in str(caught.value)


def test_box_actions_are_clipped_and_counted_once_per_agent(reach):
    both_movers = reach.generate(KEY).replace(length=jnp.asarray(4, jnp.int32))
    state, _ = reach.reset_to(both_movers)
    step = jax.jit(reach.replace(noise=0.0).step)
    wild = np.array([[np.nan, 5.0], [-3.0, 0.5]], np.float32)
    tame = np.array([[0.0, 0.0], [-1.0, 0.5]], np.float32)
    after, timestep = step(state, {"mover": wild, "caller": np.array([7])})
    wanted, _ = step(state, {"mover": tame, "caller": np.array([0])})
    chex.assert_trees_all_equal(after.position, wanted.position)
    assert timestep.metrics["invalid_actions"] == 3
    doubles = wild.astype(np.float64) * 1e300
    assert reach.step(state, {"mover": doubles, "caller": np.array([7])})[1].metrics["invalid_actions"] == 3
    one_mover, _ = reach.reset_to(both_movers.replace(length=jnp.asarray(3, jnp.int32)))
    _, timestep = step(one_mover, {"mover": wild, "caller": np.array([7])})
    assert timestep.metrics["invalid_actions"] == 2
    with pytest.raises(TypeError, match=r"action\['mover'\] has dtype int64; it needs float32 of shape \(2, 2\)"):
        reach.step(state, {"mover": np.zeros((2, 2), np.int64), "caller": np.array([0])})
    with pytest.raises(ValueError, match=r"action\['mover'\] has shape \(2,\); it needs \(2, 2\)"):
        reach.step(state, {"mover": np.zeros(2, np.float32), "caller": np.array([0])})


def test_termination_wins_over_truncation(reach):
    course = reach.generate(KEY)
    still = {"mover": np.zeros((2, 2), np.float32), "caller": np.zeros(1, np.int32)}
    step = jax.jit(reach.step)
    for length, ending in ((3, (True, False)), (5, (True, False)), (7, (False, True))):
        state, timestep = reach.reset_to(course.replace(length=jnp.asarray(length, jnp.int32)))
        for _ in range(min(length, 5)):
            assert not timestep.done
            state, timestep = step(state, still)
        assert (bool(timestep.terminated), bool(timestep.truncated)) == ending


@pytest.mark.parametrize("function", ["duration", "is_truncated"])
def test_what_learners_must_know_is_said_beside_the_function(function):
    functions = {function: lambda self, state: state}
    with pytest.raises(TypeError, match=rf"Cut writes {function}; say so by `extras = \('{function}',\)`"):
        type("Cut", (Environment,), functions)
    type("Cut", (Environment,), functions | {"extras": (function,)})


def test_what_is_written_after_extras_is_said_as_well(reach):
    """Also by who derives from an environment that says another one."""
    functions = {"duration": lambda self, state: state}
    with pytest.raises(TypeError, match=r"Slow writes duration; say so by `extras = \('duration', 'is_truncated'\)`"):
        type("Slow", (type(reach),), functions)
    type("Slow", (type(reach),), functions | {"extras": ("duration", "is_truncated")})


def test_a_finished_episode_is_a_fixed_point(reset, step):
    state, timestep = reset(KEY)
    returns = 0.0
    while not timestep.done:
        state, timestep = step(state, acting(truck=1))
        returns += timestep.reward["truck"][0]
    assert returns != 0
    again, later = step(state, acting(truck=99, drone=(1, 2)))
    chex.assert_trees_all_equal(again, state)
    nothing = {"reward": {"truck": jnp.zeros(1), "drone": jnp.zeros(2)}, "duration": jnp.zeros(())}
    chex.assert_trees_all_equal(later, timestep.replace(**nothing))


def test_select_leaves_constant_leaves_alone():
    constant, a, b = jnp.arange(3), jnp.zeros((2, 3)), jnp.ones((2, 3))
    chosen = select(jnp.array([True, False]), {"same": constant, "state": a}, {"same": constant, "state": b})
    assert chosen["same"] is constant
    assert chosen["state"].tolist() == [[0.0] * 3, [1.0] * 3]


@pytest.mark.slow
def test_one_vmapped_call_sweeps_a_parameter(env, rollout):
    rates = jnp.array([0.1, 0.5, 2.0, 8.0], jnp.float32)
    _, batch = jax.jit(jax.vmap(lambda rate: rollout(env.replace(battery_rate=rate), KEY, 12)))(rates)
    single = jax.jit(lambda env: rollout(env, KEY, 12))
    for i, rate in enumerate(rates):
        _, alone = single(env.replace(battery_rate=rate))
        chex.assert_trees_all_close(jax.tree.map(lambda leaf, i=i: leaf[i], batch), alone, rtol=1e-5, atol=1e-5)
    used = batch.metrics["battery_used"][:, -1]
    assert len(set(used.tolist())) == len(rates)


REPLACED = {
    "a size out of range": ("truck_drone", {"num_drones": 0}, "num_drones is 0; it must be >= 1"),
    "a size that is no number": (
        "truck_drone",
        {"num_customers": 2.5},
        "num_customers is 2.5; it must be a whole number",
    ),
    "a misspelt parameter": (
        "truck_drone",
        {"batery_rate": 1.0},
        "unknown parameter of TruckDroneBasic: 'batery_rate'; did you mean 'battery_rate'",
    ),
    "a parameter out of range": ("truck_drone", {"dt": 0.0}, "dt is 0.0; it must be > 0"),
    "an odd number of nodes": ("darp", {"num_nodes": 21}, "num_nodes is 21; it must be even"),
    "more than a truck holds": (
        "truck_drone_tours",
        {"truck_capacity": 4.0},
        "max_demand is 5, above truck_capacity 4; give them in order",
    ),
    "demands in disorder": ("darp", {"min_demand": 9}, "min_demand is 9, above max_demand 3; give them in order"),
}


@pytest.mark.parametrize(("name", "changes", "message"), REPLACED.values(), ids=REPLACED)
def test_replace_refuses_what_make_refuses(name, changes, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make(name).replace(**changes)
    assert "\n" not in str(caught.value)
    with pytest.raises((ValueError, TypeError), match=message.partition(": ")[2] or message):
        make(name, **changes)


@pytest.mark.parametrize(
    "take",
    [
        check_env,
        check_shapes,
        lambda env: randomize(env, {}),
        lambda env: VecEnv(env, 4).reset(KEY),
        lambda env: seen_as(env, "flat"),
    ],
    ids=["check_env", "check_shapes", "randomize", "VecEnv", "adapters"],
)
def test_the_name_of_an_environment_is_none(take):
    with pytest.raises(TypeError, match=r"^env is 'darp'; it must be an environment, such as jaxvrp.make\('darp'\)$"):
        take("darp")


def test_replace_gives_what_make_gives():
    assert make("truck_drone").replace(num_drones=4, dt=0.2) == make("truck_drone", num_drones=4, dt=0.2)
    assert make("darp").replace(num_nodes=8, max_loc=5) == make("darp", num_nodes=8, max_loc=5.0)


@pytest.mark.slow
def test_gradient_of_the_return_by_physics_is_finite(env, rollout):
    def returns(parameters):
        _, timesteps = rollout(env.replace(**parameters), KEY, 12)
        return timesteps.reward["truck"].sum() + timesteps.metrics["truck_distance"][-1]

    names = ("dt", "truck_speed", "drone_speed", "max_battery", "battery_rate", "hover_cost", "recharge_rate")
    parameters = {name: jnp.asarray(getattr(env, name), jnp.float32) for name in (*names, "energy_cost")}
    gradient = jax.jit(jax.grad(returns))(parameters)
    chex.assert_tree_all_finite(gradient)
    assert all(gradient[name] != 0 for name in ("truck_speed", "battery_rate", "energy_cost"))


def test_sample_masked_is_uniform_over_the_legal_actions():
    masks = jnp.array([[1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 1], [0, 0, 1, 0, 0, 0], [1, 0, 1, 1, 0, 1]], bool)
    count = 60_000
    uniform = jax.random.uniform(KEY, (count, len(masks)), jnp.float32)
    chosen = np.asarray(sample_masked(uniform, jnp.broadcast_to(masks, (count, *masks.shape))))
    for row, mask in zip(chosen.T, np.asarray(masks), strict=True):
        seen, expected = np.bincount(row, minlength=6), count / mask.sum()
        assert not seen[~mask].any()
        freedom = mask.sum() - 1
        chi_square = ((seen[mask] - expected) ** 2 / expected).sum()
        assert chi_square <= freedom + 4 * np.sqrt(2 * freedom)


sample_row = jax.jit(sample_masked)
almost_one = float(np.nextafter(np.float32(1), np.float32(0)))
units = st.one_of(st.floats(0, 1, exclude_max=True, width=32), st.just(almost_one))


@settings(deadline=None, max_examples=200)
@given(uniform=units, bits=st.integers(0, 2**9 - 1))
def test_sample_masked_chooses_the_right_legal_action(uniform, bits):
    mask = np.array([bits >> i & 1 for i in range(9)], bool)
    legal = np.flatnonzero(mask)
    chosen = int(sample_row(np.float32(uniform), mask))
    if len(legal) == 0:
        assert chosen == 0
    else:
        assert chosen == legal[min(int(np.float32(uniform) * np.float32(len(legal))), len(legal) - 1)]


def test_random_play_is_legal_in_every_role(reach):
    state, timestep = jax.jit(jax.vmap(reach.reset))(jax.random.split(KEY, 64))
    action, carry = jax.jit(RandomActor(reach).act)(KEY, (), state, timestep)
    assert carry == ()
    for name, role in reach.roles.items():
        assert action[name].shape == (64, role.num_agents, *role.action.shape)
        assert action[name].dtype == role.action.dtype
        assert role.action.contains(action[name]).all()
    assert jnp.take_along_axis(timestep.action_mask["caller"], action["caller"][..., None], axis=2).all()
    assert len(np.unique(action["mover"])) == action["mover"].size
