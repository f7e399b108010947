"""Names, dotted paths and parameters: what is taken, and the one line for what is not."""

import copy
import dataclasses
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jaxvrp
from jaxvrp import Environment, fields, make, register, registered, registry
from jaxvrp.envs.truck_drone import TruckDrone, TruckDroneBasic
from jaxvrp.envs.truck_drone import make as make_truck_drone
from jaxvrp.envs.truck_drone.world import CRASHED
from jaxvrp.fields import Range, build, option, parameter, size, validate


@pytest.fixture(autouse=True)
def names_of_this_test_only(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", copy.deepcopy(registry._ENTRIES))


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    (tmp_path / "user_scenarios.py").write_text(
        "import jaxvrp\n"
        "from jaxvrp.envs.truck_drone import TruckDroneBasic\n"
        "class Mine(TruckDroneBasic):\n    fuel: float = 2.0\n"
        "def factory(**parameters):\n    return jaxvrp.make('truck_drone', scenario=Mine, **parameters)\n"
        "jaxvrp.register('factory_of_a_user', factory)\n"
        "def unregistered(**parameters):\n    open('called', 'w')\n    return factory(**parameters)\n"
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "needs_more.py").write_text("import no_such_library_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("user_scenarios", "needs_more"):
        sys.modules.pop(name, None)  # so that the next test registers it again


class Quick(TruckDroneBasic):
    """A user's scenario with a parameter of its own and another default."""

    max_steps: int = size(50, minimum=3)
    toll: float = 3.0


def one_line(caught):
    return "\n" not in str(caught.value)


def test_what_ships_is_known():
    assert "truck_drone" in registered()
    assert "truck_drone_basic" in registered("scenario")
    assert isinstance(make("truck_drone"), TruckDrone)
    assert make("truck_drone") == make("truck_drone", scenario="truck_drone_basic")


UNKNOWN = {
    "environment": ("truck_dron", {}, "unknown environment 'truck_dron'; did you mean 'truck_drone'"),
    "long name": ("9" * 5000, {}, r"unknown environment '9{20,100}.* \.\.\.; known: darp"),
    "no environment": ("xyzzy", {}, "unknown environment 'xyzzy'; known: .*truck_drone"),
    "scenario": (
        "truck_drone",
        {"scenario": "truck_drone_basics"},
        "unknown scenario .*did you mean 'truck_drone_basic'",
    ),
    "own": ("xyzzy", {}, "'package.module:attribute'"),
    "size": ("truck_drone", {"num_drone": 2}, "parameter .*'num_drone'; did you mean 'num_drones'"),
    "rate": ("truck_drone", {"batery_rate": 2}, "'truck_drone_basic': 'batery_rate'; did you mean 'battery_rate'"),
    "module": ("no_such_package.envs:Mine", {}, "no module 'no_such_package'; run from the folder that holds it"),
    "attribute": ("jaxvrp.envs.truck_drone:mak", {}, "has no 'mak'; did you mean 'make'"),
    "scenario module": (
        "truck_drone",
        {"scenario": "nowhere_at_all:Mine"},
        "cannot import scenario 'nowhere_at_all:Mine'",
    ),
    "no module": (":Mine", {}, "':Mine': '' is no module; give 'package.module:attribute'"),
    "above": ("..envs:Mine", {}, "'..envs' is no module"),
}


@pytest.mark.parametrize(("name", "parameters", "message"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_names_are_told_with_the_nearest(name, parameters, message):
    with pytest.raises(ValueError, match=message) as caught:
        make(name, **parameters)
    assert one_line(caught)


def test_a_name_is_a_text():
    with pytest.raises(TypeError, match=r"^the name of the environment is None; it must be a text, such as 'darp'$"):
        make(None)
    with pytest.raises(TypeError, match=r"^the name to register is 7; it must be a text"):
        register(7, Quick)


def test_dotted_paths_lead_to_classes_and_to_what_their_module_registers(user_module):
    env = make("truck_drone", scenario="user_scenarios:Mine", fuel=1, num_drones=3)
    assert (env.fuel, env.num_drones) == (1.0, 3)
    assert make("user_scenarios:factory", num_drones=3).num_drones == 3
    assert make("jaxvrp.envs.truck_drone:make") == make("truck_drone")
    with pytest.raises(ModuleNotFoundError, match="no_such_library_at_all"):
        make("needs_more:Mine")


NEITHER = "is neither a class of {}s nor registered, so it is not called; "
REFUSED = {
    "function": ("user_scenarios:unregistered", "environment", r"name .*, or register .*\('NAME', unregistered\)"),
    "of a library": ("subprocess:getoutput", "environment", r"name a class derived from jaxvrp\.Environment"),
    "another class": ("subprocess:Popen", "environment", "name a class derived from"),
    "no function": ("sys:path", "environment", "name a class derived from"),
    "nothing": ("jaxvrp.io.text_lines:__spec__", "environment", "name a class derived from"),
    "a factory as scenario": ("user_scenarios:factory", "scenario", "name a class of scenarios"),
    "another environment": ("jaxvrp.envs.darp:Darp", "scenario", "name a class of scenarios"),
    "a library as scenario": ("subprocess:getoutput", "scenario", "name a class of scenarios"),
}


@pytest.mark.parametrize(("path", "kind", "remedy"), REFUSED.values(), ids=REFUSED)
def test_what_else_a_dotted_path_leads_to_is_not_called(path, kind, remedy, user_module):
    with pytest.raises(ValueError, match=rf"{kind} '{path}' {NEITHER.format(kind)}{remedy}") as caught:
        make(path, cmd="touch called") if kind == "environment" else make("truck_drone", scenario=path)
    assert one_line(caught)
    assert not (user_module / "called").exists()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"fuel": "full"}, r"^fuel is 'full'; it must be a number$"),
        ({"num_drones": 0}, r"^num_drones is 0; it must be >= 1$"),
        ({"fuell": 1}, r"^unknown parameter of 'user_scenarios:Mine': 'fuell'; did you mean 'fuel'$"),
    ],
)
def test_parameters_of_a_class_are_checked(parameters, message, user_module):
    with pytest.raises((ValueError, TypeError), match=message):
        make("user_scenarios:Mine", **parameters)
    whole = make("user_scenarios:Mine", fuel=3).fuel
    assert (type(whole), whole) == (float, 3.0)


def test_a_scenario_may_be_named_as_an_environment(user_module):
    assert make("user_scenarios:Mine", num_drones=3).fuel == 2.0


def test_own_scenarios_and_environments_are_first_class():
    register("quick", Quick)
    register("quick_env", lambda **parameters: make("truck_drone", scenario="quick", **parameters))
    assert "quick" in registered("scenario")
    assert "quick" not in registered()
    assert "quick_env" in registered()
    env = make("quick_env", toll=4)
    assert (env.toll, env.max_episode_steps) == (4.0, 50)
    with pytest.raises(ValueError, match="'tol'; did you mean 'toll'"):
        make("truck_drone", scenario="quick", tol=4)


def test_names_are_taken_once():
    register("quick", Quick)
    register("quick", Quick)
    with pytest.raises(ValueError, match="cannot register 'quick': the name is taken; choose another"):
        register("quick", TruckDroneBasic)
    with pytest.raises(ValueError, match="cannot register 'truck_drone': the name is taken"):
        register("truck_drone", lambda: None)
    with pytest.raises(ValueError, match="a name has no ':'; its dotted path works beside its name"):
        register("my:env", lambda: None)
    with pytest.raises(TypeError, match=r"register\('three', ...\) needs a factory .*; got 3"):
        register("three", 3)


def test_factories_must_return_environments():
    register("nothing", lambda: None)
    with pytest.raises(TypeError, match=r"'nothing' returned NoneType; a factory must return a jaxvrp.Environment"):
        make("nothing")


def test_importing_the_package_imports_no_environment():
    factories = [entry.factory for entry in registry._ENTRIES["environment"].values()]
    assert "jaxvrp.envs.truck_drone:make" in factories
    assert set(jaxvrp.__all__) >= {"make", "register", "registered", "check_env", "VecEnv", "Environment"}


WRONG = {
    "no drones": ({"num_drones": 0}, ValueError, "num_drones is 0; it must be >= 1"),
    "no customers": ({"num_customers": -1}, ValueError, "num_customers is -1; it must be >= 1"),
    "no windows": ({"max_steps": 2}, ValueError, "max_steps is 2; it must be >= 3"),
    "negative speed": ({"drone_speed": -1.0}, ValueError, "drone_speed is -1.0; it must be >= 0"),
    "no time": ({"dt": 0}, ValueError, "dt is 0.0; it must be > 0"),
    "NaN": ({"battery_rate": float("nan")}, ValueError, "battery_rate is nan; it must be >= 0"),
    "infinite": ({"completion_bonus": float("inf")}, ValueError, "completion_bonus is inf; it must be >= 0"),
    "bool as count": ({"num_drones": True}, TypeError, "num_drones is True; it must be a whole number"),
    "bool as number": ({"dt": False}, TypeError, "dt is False; it must be a number"),
    "fraction": ({"num_customers": 2.5}, TypeError, r"num_customers is 2.5; it must be a whole number"),
    "text as count": ({"num_drones": "2"}, TypeError, "num_drones is '2'; it must be a whole number"),
    "text as number": ({"battery_rate": "fast"}, TypeError, "battery_rate is 'fast'; it must be a number"),
    "nothing": ({"dt": None}, TypeError, "dt is None; it must be a number"),
    "list": ({"dt": [0.1]}, TypeError, r"dt is \[0.1\]; it must be a number"),
    "beyond float32": ({"battery_rate": 1e39}, ValueError, r"battery_rate is 1e\+39; it must be >= 0 and <= 1e\+12$"),
    "flushed to 0": ({"dt": 1e-45}, ValueError, r"dt is 1e-45; it must be >= 1e-12 and <= 1e\+12$"),
    "hundreds of digits": ({"battery_rate": 10**400}, ValueError, r"battery_rate is 1(0){35} \.\.\.; it must be at mo"),
    "thousands of digits": ({"dt": 10**5000}, ValueError, "dt is <int, too large to be written>; it must be at"),
    "an index beyond int32": ({"num_drones": 10**11}, ValueError, "num_drones is 100000000000; .* <= 2147483647$"),
    "digits of a count": ({"num_drones": 10**5000}, ValueError, "num_drones is <int, too large .*<= 2147483647"),
    "an array of nothing": ({"dt": np.array(np.nan)}, ValueError, "dt is nan; it must be > 0"),
    "an array out of range": ({"dt": jnp.array([0.1, -1.0])}, ValueError, "dt is -1.0; it must be > 0"),
    "an array with NaN": (
        {"battery_rate": np.array([[0.1, np.nan]])},
        ValueError,
        "battery_rate is nan; it must be >=",
    ),
    "an array beyond float32": (
        {"battery_rate": np.array([1.0, 1e39])},
        ValueError,
        r"battery_rate is 1e\+39; it must",
    ),
    "an array for a count": (
        {"num_drones": np.array([2, 3])},
        TypeError,
        r"num_drones is array\(\[2, 3\]\); it must be",
    ),
}


@pytest.mark.parametrize(("parameters", "error", "message"), WRONG.values(), ids=WRONG)
def test_wrong_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message) as caught:
        make("truck_drone", **parameters)
    assert one_line(caught)


def test_numbers_of_numpy_and_whole_numbers_become_plain():
    scenario = make("truck_drone", num_drones=np.int64(3), dt=np.float64(0.5), drone_speed=3)
    assert [type(x) for x in (scenario.num_drones, scenario.dt, scenario.drone_speed)] == [int, float, float]
    assert (scenario.num_drones, scenario.dt, scenario.drone_speed) == (3, 0.5, 3.0)


def test_arrays_and_tracers_pass_as_parameters():
    rates = jnp.array([0.1, 0.2])
    assert make("truck_drone", battery_rate=rates).battery_rate is rates
    rate = jax.jit(lambda rate: make("truck_drone", battery_rate=rate).battery_rate * 2)(0.25)
    assert rate == 0.5
    for array in (np.array(0.5), jnp.zeros((0,)), np.ones((2, 3), np.float32)):
        assert make("truck_drone", battery_rate=array).battery_rate is array


def test_sizes_are_static_and_parameters_are_leaves():
    env = make("truck_drone", num_drones=4)
    leaves = jax.tree.leaves(env)
    assert all(isinstance(leaf, float) for leaf in leaves)
    fields = {field.name for field in dataclasses.fields(env)}
    static = {"num_drones", "num_customers", "num_route_nodes", "max_steps", "observation_kind", "decide", "max_repeat"}
    assert static < fields and len(leaves) == len(fields - static)
    assert jax.tree.structure(env) != jax.tree.structure(make("truck_drone", num_drones=5))


def test_a_scenario_comes_as_name_class_or_instance():
    by_class = make_truck_drone(TruckDroneBasic, num_drones=3)
    assert by_class == make("truck_drone", num_drones=3)
    assert make_truck_drone(TruckDroneBasic(num_drones=3, dt=0.2), dt=0.1) == by_class
    with pytest.raises(ValueError, match="num_drones is 0; it must be >= 1"):
        make_truck_drone(TruckDroneBasic(num_drones=0))


@pytest.mark.parametrize("scenario", [3, dict, lambda: None, Environment])
def test_what_is_no_scenario_is_refused(scenario):
    with pytest.raises(TypeError, match=r"is no jaxvrp.envs.truck_drone.TruckDrone; derive your class from it"):
        make_truck_drone(scenario)


def test_a_scenario_sets_rules_or_makes_them_parameters():
    class Waiting(TruckDrone):
        wait_for_window = True
        crash_penalty: float = parameter(3.0, minimum=0.0, help="for each crash of a drone")

    env = make_truck_drone(Waiting, crash_penalty=4.0)
    assert set(env.parameters) - set(make("truck_drone").parameters) == {"crash_penalty"}
    state = env.init_state(env.generate(jax.random.key(0)))
    assert env.is_closed(state).tolist() == (state.instance.window_start > 1).tolist()
    wreck = state.replace(drones=state.drones.replace(status=jnp.full(2, CRASHED), battery_used=jnp.ones(2)))
    costs = make("truck_drone").shared_reward(wreck) - env.shared_reward(wreck)
    assert float(costs) == pytest.approx(8.0)


@dataclasses.dataclass(frozen=True)
class Options:
    kind: str = option("mlp", help="network", choices=("mlp", "gru"))
    rate: float = option(1e-3, help="step size", above=0.0, maximum=1.0)
    limit: int | None = option(None, help="steps", minimum=1)
    layers: tuple[int, ...] = option((64, 64), help="widths", minimum=1)
    share: bool = option(True, help="one policy for all")
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    note: str = option("", help="a remark")


@dataclasses.dataclass(frozen=True)
class Whole:
    options: Options = dataclasses.field(default_factory=Options)


def test_a_field_that_is_a_structure_takes_no_other():
    whole = build(Whole, {"options": Options("gru")}, "key")
    assert whole.options.kind == "gru"
    for value in ("gru", 3.0, None, np.zeros(2)):
        with pytest.raises(TypeError, match=r"^options is .*; it must be of type Options$"):
            build(Whole, {"options": value}, "key")


def test_options_are_built_and_checked_by_key():
    options = build(Options, {"kind": "gru", "rate": 1, "limit": 5, "layers": [8, 8], "share": False}, "key", "net.")
    assert options == Options("gru", 1.0, 5, (8, 8), False)
    assert build(Options, {"limit": None}, "key").limit is None
    assert validate(Options(), "key") == Options()


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"kind": "rnn"}, ValueError, "net.kind is 'rnn'; it must be one of: mlp, gru"),
        ({"kind": 3}, TypeError, "net.kind is 3; it must be a text"),
        ({"rate": 0.0}, ValueError, "net.rate is 0.0; it must be > 0 and <= 1"),
        ({"limit": 0}, ValueError, "net.limit is 0; it must be >= 1"),
        ({"limit": 2**31}, ValueError, "net.limit is 2147483648; it must be >= 1 and <= 2147483647$"),
        ({"layers": [64, 10**11]}, ValueError, "net.layers is 100000000000; it must be >= 1 and <= 2147483647$"),
        ({"kind": "x" * 99}, ValueError, r"net.kind is 'x{35} \.\.\.; it must be one of"),
        ({"layers": [64, 0]}, ValueError, "net.layers is 0; it must be >= 1"),
        ({"layers": 64}, TypeError, r"net.layers is 64; it must be a list"),
        ({"share": 1}, TypeError, "net.share is 1; it must be true or false"),
        ({"shares": True}, ValueError, "unknown key 'net.shares'; did you mean 'share'"),
    ],
)
def test_wrong_options_are_named_by_key(values, error, message):
    with pytest.raises(error, match=message):
        build(Options, values, "key", "net.")


def test_accepted_values_in_words():
    words = {field.name: fields.accepted_values(Options, field) for field in dataclasses.fields(Options)}
    assert words == {
        "kind": "one of: mlp, gru",
        "rate": "number, > 0, <= 1",
        "limit": "whole, >= 1, or null",
        "layers": "list of whole numbers, >= 1",
        "share": "true, false",
        "more": "mapping",
        "note": "text",
    }


def test_validate_checks_what_was_set_by_hand():
    with pytest.raises(ValueError, match=r"rate is 2.0; it must be"):
        validate(Options(rate=2.0), "key")


def test_infinity_is_taken_where_it_is_the_maximum_and_nothing_near_it():
    assert make("darp", max_ride_time=np.inf).max_ride_time == np.inf
    with pytest.raises(ValueError, match=r"max_ride_time is 1e\+39; it must be >= 1e-12 and <= 1e\+12"):
        make("darp", max_ride_time=1e39)


@given(st.floats(allow_nan=True, allow_infinity=True, width=64) | st.integers(-(10**400), 10**400))
def test_what_passes_is_a_usual_number_of_float32(value):
    """The rounding is NumPy's, which keeps what the devices flush."""
    try:
        rate = build(Options, {"rate": value}, "key").rate
    except ValueError:
        assert not (1e-12 <= value <= 1.0), value
    else:
        assert 0 < np.float32(rate) <= 1 and np.isfinite(1 / np.float32(rate) ** 2)


def test_ranges_hold_finite_numbers_and_read_well():
    assert 1.0 in Range(minimum=1.0, maximum=2.0)
    assert 1.0 not in Range(above=1.0)
    assert float("inf") not in Range()
    assert str(Range(minimum=0.0, maximum=1.0)) == ">= 0 and <= 1"
    assert str(Range()) == "finite"


def test_metrics_that_a_class_of_a_user_adds_are_headlines():
    class Tolls(TruckDroneBasic):
        def metrics(self, state):
            added = {"road_toll": 2.0 * state.totals.truck_distance, "flown_by": state.drones.battery}
            return {**super().metrics(state), **added}

    class Renamed(TruckDroneBasic):
        def metrics(self, state):
            return super().metrics(state)

    shipped = registry.card_of(make("truck_drone")).headlines
    assert registry.card_of(make("truck_drone", scenario=Renamed)).headlines == shipped
    *first, added = registry.card_of(make("truck_drone", scenario=Tolls)).headlines
    assert tuple(first) == shipped
    assert (added.metric, added.title) == ("road_toll", "road toll"), "a metric of each drone is no column"
