"""`check_env` accepts what ships, and names what is broken in one line."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp import Pointer, Role, make
from jaxvrp.envs.truck_drone import TruckDroneBasic
from jaxvrp.spaces import Box, Discrete, Place
from jaxvrp.testing import ConformanceError, check_env, check_shapes
from tests.toy_environments import Deliveries, features

SMALL = {
    "darp": {"num_nodes": 8, "num_agents": 3},
    "truck_drone": {"max_steps": 20},
    "tsp_drone": {"num_nodes": 6, "max_flight": 100.0},
    "truck_drone_tours": {"num_nodes": 6, "window_share": 1.0},
    "flying_sidekicks": {"num_nodes": 5, "num_drones": 1, "endurance": 400.0},
}
"""Compiling and plain steps take most of the time: sizes at which everything still happens."""

# `pcb` is checked in all its modes with its own tests.
SHIPPED = [*SMALL.items(), ("flying_sidekicks", {"num_nodes": 5, "num_drones": 2, "endurance": 400.0})]


@pytest.mark.slow("flying_sidekicks, two drones", "truck_drone")
@pytest.mark.parametrize(("name", "parameters"), SHIPPED, ids=[*SMALL, "flying_sidekicks, two drones"])
def test_what_ships_conforms(name, parameters):
    check_env(make(name, **parameters))


def test_continuous_roles_void_rows_noise_and_truncation_conform(reach):
    check_env(reach)


def test_other_seeds_and_sizes_conform_and_what_was_checked_is_printed(reach, capsys):
    check_env(reach, jax.random.key(7), num_steps=3, batch=3, quiet=True)
    assert capsys.readouterr().out == ""
    check_env(reach, jax.random.key(7), num_steps=3, batch=3)
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 12 and all(line.startswith("passed  ") for line in lines)
    assert last == "Reach is sound: 3 steps of 3 environments, legal, arbitrary, idle actions"
    with pytest.raises(ConformanceError, match="batch is 2; it must be at least 3"):
        check_env(reach, batch=2)


SAID = {"extras": ("duration", "is_truncated")}


def basic(**functions):
    """`TruckDroneBasic` with some functions replaced, in an environment of 2 drones and 2 customers."""
    scenario = type("Broken", (TruckDroneBasic,), SAID | functions)
    sizes = {"num_drones": 2, "num_customers": 2, "num_route_nodes": 3, "max_steps": 12}
    return make("truck_drone", scenario=scenario, **sizes)


def changed(function, change):
    """A scenario with `change` applied to what `function` returns, given the world too."""
    original = getattr(TruckDroneBasic, function)
    return basic(**{function: lambda self, state: change(original(self, state), state)})


def raising(error):
    def function(*_):
        raise error

    return function


BROKEN_SHAPES = {
    "mask width": (
        changed("action_mask", lambda mask, _: {**mask, "drone": mask["drone"][:, :-1]}),
        r"action_mask\['drone'\]: shape \(2, 3\), expected \(2, 4\); a row per agent, a column per action",
    ),
    "mask role": (
        changed("action_mask", lambda mask, _: {"drone": mask["drone"]}),
        r"action_mask: has the keys \['drone'\], expected \['drone', 'truck'\]",
    ),
    "mask dtype": (
        changed("action_mask", lambda mask, _: {**mask, "truck": mask["truck"].astype(jnp.float32)}),
        r"action_mask\['truck'\]: dtype float32, expected bool",
    ),
    "reward int": (
        changed("shared_reward", lambda reward, _: reward.astype(jnp.int32)),
        r"reward\['drone'\]: dtype int32, expected float32",
    ),
    "reward half": (
        changed("shared_reward", lambda reward, _: reward.astype(jnp.float16)),
        r"reward\['drone'\]: dtype float16, expected float32",
    ),
    "reward per drone": (
        changed("shared_reward", lambda reward, world: jnp.broadcast_to(reward, world.drones.battery.shape)),
        r"reward\['truck'\]: shape \(1, 2\), expected \(1,\); .*a scenario's reward: one f32\[\] for all",
    ),
    "reward of Python": (
        changed("shared_reward", lambda *_: 1.0),
        r"reward raised TypeError: 'float' object .*env\.py:\d+",
    ),
    "reward weak": (
        changed("shared_reward", lambda _, world: jnp.where(world.step > 3, 1.0, 0.0)),
        r"reward\['drone'\]: weak type float32\[2\]; give it a dtype, jnp.asarray\(x, jnp.float32\)",
    ),
    "observation rows": (
        changed("observation", lambda seen, _: {**seen, "drone": seen["drone"][1:]}),
        r"observation\['drone'\]: shape \(1, 28\), expected \(2, 28\); a row per agent",
    ),
    "observation dtype": (
        changed("observation", lambda seen, _: {**seen, "truck": seen["truck"].astype(jnp.int32)}),
        r"observation\['truck'\]: dtype int32, expected float32",
    ),
    "observation role": (
        changed("observation", lambda seen, _: {"truck": seen["truck"]}),
        r"observation: has the keys \['truck'\], expected \['drone', 'truck'\]",
    ),
    "observation array": (changed("observation", lambda seen, _: seen["truck"]), "observation: got .*must be a dict"),
    "observation list": (
        changed("observation", lambda seen, _: {**seen, "truck": [seen["truck"]]}),
        r"observation\['truck'\]: got list, expected one array",
    ),
    "global observation": (
        changed("global_observation", lambda seen, _: seen[None]),
        r"global_observation: shape \(1, 29\), expected \(29,\); one vector",
    ),
    "terminal per drone": (
        changed("is_terminal", lambda _, world: world.drones.is_crashed),
        r"is_terminal: shape \(2,\), expected \(\); one truth value per episode",
    ),
    "truncated int": (changed("is_truncated", lambda _, world: world.step), "is_truncated: dtype int32, expected bool"),
    "metric dtype": (
        changed("metrics", lambda metrics, world: {**metrics, "clock": world.step}),
        r"metrics\['clock'\]: dtype int32, expected float32",
    ),
    "metric shape": (
        changed("metrics", lambda metrics, world: {**metrics, "where": world.drones.position}),
        r"metrics\['where'\]: shape \(2, 2\), expected one of \[\(\), \(1,\), \(2,\), \(3,\)\]",
    ),
    "metric name": (
        changed("metrics", lambda metrics, _: {**metrics, "episode_length": metrics["success"]}),
        r"metrics\['episode_length'\]: VecEnv adds this; rename it",
    ),
    "metric name of evaluation": (
        changed("metrics", lambda metrics, _: {**metrics, "return": metrics["success"]}),
        r"metrics\['return'\]: evaluation adds this; rename it",
    ),
    "metric of a headline": (
        changed(
            "metrics", lambda metrics, _: {"succes" if name == "success" else name: metrics[name] for name in metrics}
        ),
        "headlines: no metric 'success'; did you mean 'succes'",
    ),
    "generate raises": (
        basic(generate=raising(OSError("no file customers.csv\nand more"))),
        r"generate raised OSError: no file customers.csv \(test_testing.py:\d+\)$",
    ),
    "init_state weak": (
        changed("init_state", lambda world, _: world.replace(step=0)),
        r"init_state\.step: weak type int32\[\]; give it a dtype",
    ),
    "init_state dtype": (
        changed("init_state", lambda world, _: world.replace(step=jnp.zeros((), jnp.float32))),
        r"transition\.customers\.arrival_step: float32\[2\], but int32\[2\] from init_state; types must not change",
    ),
    "branch on a value": (
        basic(is_terminal=lambda self, world: world.step > 3 and world.customers.served.all()),
        r"is_terminal raised TracerBoolConversionError: .*test_testing.py:\d+\); values are not known while tracing",
    ),
    "branch on a parameter": (
        basic(shared_reward=lambda self, world: jnp.zeros((), jnp.float32) if self.delivery_bonus > 5 else 0.0),
        r"as an argument of jit \(sizes and kinds must be static fields\) raised Tracer",
    ),
}


@pytest.mark.parametrize(("env", "message"), BROKEN_SHAPES.values(), ids=BROKEN_SHAPES)
def test_check_shapes_names_the_function(env, message):
    with pytest.raises(ConformanceError, match=message) as caught:
        check_shapes(env)
    assert "\n" not in str(caught.value)


def test_the_users_error_is_the_cause():
    error = OSError("no file customers.csv")
    with pytest.raises(ConformanceError) as caught:
        check_env(basic(generate=raising(error)))
    assert caught.value.__cause__ is error


def broken(env, functions):
    return type("Broken", (type(env),), SAID | functions)()


BOX = Box(-1.0, 1.0, (4,))
CALLER = Role(1, Box(0.0, 1.0, (1,)), Discrete(3))
BROKEN_ROLES = {
    "none": ({}, "roles: got {}; it must be a dict with at least one Role"),
    "no role": ({"mover": 2}, r"roles\['mover'\]: got 2; it must be a jaxvrp.Role"),
    "no agents": ({"mover": Role(0, BOX, BOX)}, r"roles\['mover'\]: num_agents is 0; it must be an int, 1 or more"),
    "no actions": ({"mover": Role(2, BOX, Discrete(0))}, r"Discrete\(num_actions=0\) is empty"),
    "no space": ({"mover": Role(2, BOX, 3)}, "action is 3; it must be Discrete or Box"),
    "upside down": ({"mover": Role(2, BOX, Box(1.0, -1.0, (2,)))}, "is empty; low must be below high"),
    "discrete observation": ({"mover": Role(2, Discrete(3), BOX)}, "observation is Discrete.*; it must be a Box"),
    "another count": (
        {"mover": Role(3, BOX, Box(-1.0, 1.0, (2,))), "caller": CALLER},
        r"observation\['mover'\]: shape \(2, 4\), expected \(3, 4\)",
    ),
}


@pytest.mark.parametrize(("roles", "message"), BROKEN_ROLES.values(), ids=BROKEN_ROLES)
def test_insane_roles_are_named(reach, roles, message):
    with pytest.raises(ConformanceError, match=message):
        check_shapes(broken(reach, {"roles": property(lambda _: roles)}))


def test_a_size_that_became_a_parameter_is_named():
    class Short(TruckDroneBasic):
        max_steps: int = 12

    with pytest.raises(ConformanceError, match=r"env\.max_steps: got the whole number 12; .*fields\.size"):
        check_shapes(make("truck_drone", scenario=Short))


@pytest.mark.parametrize("length", [0, 2.5, True])
def test_an_insane_episode_length_is_named(reach, length):
    with pytest.raises(ConformanceError, match=f"max_episode_steps: got {length}; it must be an int"):
        check_shapes(broken(reach, {"max_episode_steps": property(lambda _: length)}))


@jax.custom_batching.custom_vmap
def over_the_batch(x):
    return x


@over_the_batch.def_vmap
def _(size, batched, x):
    del size, batched
    return x - x.mean(axis=0), True


def is_traced(state):
    return isinstance(state.step, jax.core.Tracer)


def with_mover(values, mover):
    return {**values, "mover": mover}


BROKEN_BEHAVIOUR = {
    "observation NaN": (
        "observation",
        lambda seen, self, state: with_mover(seen, jnp.where(state.step == 2, jnp.nan, seen["mover"])),
        r"^observation\['mover'\]: NaN or infinite; .* \(step 2, legal actions\)",
    ),
    "observation outside": (
        "observation",
        lambda seen, self, state: {**seen, "caller": 3 * seen["caller"]},
        r"observation\['caller'\]: outside of the Box in its role, \[0.0, 1.0\]",
    ),
    "global observation inf": (
        "global_observation",
        lambda seen, self, state: seen / state.step.astype(jnp.float32),
        r"^global_observation: NaN or infinite; .* \(after reset\)",
    ),
    "reward inf under illegal actions": (
        "reward",
        lambda reward, self, state: with_mover(reward, jnp.where(state.invalid > 0, jnp.inf, reward["mover"])),
        r"^reward\['mover'\]: NaN or infinite; .* arbitrary actions\)",
    ),
    "mask row all false": (
        "action_mask",
        lambda mask, self, state: {"caller": mask["caller"] & (state.step < 2)},
        r"action_mask\['caller'\]: a row has no legal action; .* \(step 2, ",
    ),
    "mask without fallback": (
        "action_mask",
        lambda mask, self, state: {"caller": mask["caller"].at[:, 0].set(state.step < 2)},
        r"action_mask\['caller'\]: forbids the fallback of illegal actions",
    ),
    "over at once": (
        "is_terminal",
        lambda over, self, state: over | (state.step == 0),
        "is_terminal or is_truncated holds in every fresh state",
    ),
    "finished state moves": (
        "step",
        lambda then, self, *_: (then[0].replace(call=then[0].call + 1), then[1]),
        r"step: a finished state changes, in state\.call",
    ),
    "finished state pays": (
        "step",
        lambda then, self, *_: (then[0], then[1].replace(reward=with_mover(then[1].reward, -jnp.ones(2, jnp.float32)))),
        r"step: a finished state pays a reward\['mover'\]; it must pay 0",
    ),
    "illegal actions uncounted": (
        "metrics",
        lambda metrics, self, state: {**metrics, "invalid_actions": state.step.astype(jnp.float32)},
        r"metrics\['invalid_actions'\]: illegal actions are not counted once each",
    ),
    "generate by NumPy": (
        "generate",
        lambda course, self, key: course.replace(target=jnp.asarray(np.random.rand(2), jnp.float32)),
        r"reset twice with one key differ in state\.course\.target; draw from the key alone",
    ),
    "start depends on tracing": (
        "init_state",
        lambda state, self, instance: state.replace(call=jnp.full((), 1.0 - is_traced(state), jnp.float32)),
        r"reset with and without jit differ",
    ),
    "parameter baked in": (
        "transition",
        lambda state, self, *_: state.replace(call=state.call + (0.0 if isinstance(self.speed, float) else 1.0)),
        r"step with parameters as arguments and as constants differ in state\.call; read them from self",
    ),
    "step depends on tracing": (
        "transition",
        lambda state, self, before, *_: state.replace(call=state.call + (0.0 if is_traced(before) else 1.0)),
        r"step with and without jit differ in state\.call; no Python state",
    ),
    "step depends on the batch": (
        "transition",
        lambda state, self, *_: state.replace(position=over_the_batch(state.position)),
        r"vmap\(step\) and a loop over step differ in state\.position; reduce over agents",
    ),
}


@pytest.mark.slow(
    "observation outside",
    "mask without fallback",
    "finished state pays",
    "reward inf under illegal actions",
    "step depends on the batch",
)
@pytest.mark.parametrize(("function", "change", "message"), BROKEN_BEHAVIOUR.values(), ids=BROKEN_BEHAVIOUR)
def test_check_env_names_the_misbehaviour(reach, function, change, message):
    original = getattr(type(reach), function)
    env = broken(reach, {function: lambda self, *args: change(original(self, *args), self, *args)})
    with pytest.raises(ConformanceError, match=message) as caught:
        check_env(env)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_episode_steps", 3, "is_terminal: no end after max_episode_steps = 3"),
    ],
)
def test_check_env_names_a_false_promise(reach, name, value, message):
    with pytest.raises(ConformanceError, match=message):
        check_env(broken(reach, {name: property(lambda _: value)}))


def lasting(reach, steps, *said):
    """`reach` whose transitions take so many steps; what it has `said` are its `extras`, by default all."""
    extras = {"extras": property(lambda _: said)} if said else {}
    return broken(reach, {"duration": lambda self, state: jnp.full((), steps, jnp.float32), **extras})


@pytest.mark.slow
def test_check_env_names_false_durations(reach):
    check_env(lasting(reach, 2.0), num_steps=3)
    with pytest.raises(ConformanceError, match="duration: below 1, or not finite"):
        check_env(lasting(reach, 0.5))


@pytest.mark.parametrize(("unsaid", "said"), [("duration", "is_truncated"), ("is_truncated", "duration")])
def test_check_env_names_what_extras_do_not(reach, unsaid, said):
    """A property is known of an environment only, and hides what the class derives from says."""
    with pytest.raises(ConformanceError, match=f"{unsaid}: learners ignore it, since extras do not name it"):
        check_env(lasting(reach, 2.0, said))


def test_entities_of_two_kinds_conform():
    check_env(Deliveries(cut=True))


def with_kinds(**changes):
    """`Deliveries` whose kinds are described otherwise: `{kind: {attribute: value}}`."""
    kinds = [dataclasses.replace(kind, **changes.get(kind.name, {})) for kind in Deliveries().entity_kinds]
    return broken(Deliveries(), {"entity_kinds": property(lambda _: tuple(kinds))})


def with_truck(**changes):
    """`Deliveries` whose truck is described otherwise."""
    roles = Deliveries().roles
    described = {**roles, "truck": dataclasses.replace(roles["truck"], **changes)}
    return broken(Deliveries(), {"roles": property(lambda _: described)})


def showing(function, change):
    """`Deliveries` with `change` applied to what `function` returns, given the state too."""
    original = getattr(Deliveries, function)
    return broken(Deliveries(), {function: lambda self, state: change(original(self, state), state)})


def altered(planes, kind, change):
    return {**planes, kind: change(planes[kind])}


BROKEN_ENTITIES = {
    "no description": (
        broken(Deliveries(), {"entity_kinds": property(lambda _: ())}),
        r"^static_entities: has the keys \['customer', 'drone'\], expected \[\]$",
    ),
    "description raises": (
        broken(Deliveries(), {"entity_kinds": property(raising(OSError("no file kinds.csv")))}),
        r"^entity_kinds raised OSError: no file kinds.csv \(test_testing.py:\d+\)$",
    ),
    "kind missing": (
        showing("entities", lambda planes, _: {"drone": planes["drone"]}),
        r"^entities: has the keys \['drone'\], expected \['customer', 'drone'\]$",
    ),
    "static plane missing": (
        showing("static_entities", lambda planes, _: altered(planes, "customer", lambda rows: rows[1:])),
        r"^static_entities\['customer'\]: shape \(2, 3\), expected \(3, 3\); a plane for each of its static features$",
    ),
    "rows instead of planes": (
        showing("entities", lambda planes, _: altered(planes, "customer", jnp.transpose)),
        r"^entities\['customer'\]: shape \(3, 2\), expected \(2, 3\); a plane for each of its dynamic features$",
    ),
    "dtype": (
        showing("entities", lambda planes, _: altered(planes, "customer", lambda rows: rows > 0)),
        r"^entities\['customer'\]: dtype bool, expected float32",
    ),
    "neither entities nor one vector": (
        broken(
            Deliveries(),
            {
                "entity_kinds": property(lambda _: ()),
                "static_entities": lambda self, state: {},
                "entities": lambda self, state: {},
            },
        ),
        r"^global_observation: got NoneType, .*; one vector \(None is for environments with entity_kinds\)$",
    ),
    "a global observation that is no vector": (
        broken(Deliveries(), {"global_observation": lambda self, state: state.position}),
        r"^global_observation: shape \(3, 2\), expected \(6,\); one vector",
    ),
    "nothing says who is there": (
        broken(
            with_kinds(customer={"dynamic": (), "places": ()}),
            {
                "entities": lambda self, state: {
                    **Deliveries.entities(self, state),
                    "customer": jnp.zeros((0, self.num_customers), jnp.float32),
                }
            },
        ),
        r"^entity kind 'customer': no dynamic features; the first one says whether it is there$",
    ),
    "one name twice": (
        with_kinds(customer={"dynamic": features("waiting", "weight")}),
        r"^entity kind 'customer': two features have one name$",
    ),
    "an unknown place": (
        with_kinds(drone={"places": (Place("there", "x", "height"),)}),
        r"^entity kind 'drone': its places name \['height'\], which are none of its features$",
    ),
    "context of another length": (
        with_truck(context=features("x", "y")),
        r"^roles\['truck'\]: context names 2 numbers, observation has \(3,\)$",
    ),
    "no context": (
        with_truck(context=(), places=()),
        r"^roles\['truck'\]: entities are seen, so context must name the numbers of its observation$",
    ),
    "unknown coordinates": (
        with_truck(places=(("x", "y"), ("x", "height"))),
        r"^roles\['truck'\]: places names \['height'\], which are not in its context$",
    ),
    "pointers at nothing": (
        with_truck(pointers=(Pointer(None, 1), Pointer("client", 1))),
        r"^roles\['truck'\]: pointers name \['client'\], which are none of entity_kinds$",
    ),
    "pointers at too little": (
        with_truck(pointers=(Pointer(None, 1), Pointer("customer", 1))),
        r"^roles\['truck'\]: pointers make up 4 actions, its action has 6$",
    ),
    "pointers of a continuous action": (
        broken(
            with_truck(action=Box(-1.0, 1.0, (2,))),
            {"action_mask": lambda self, state: {"drone": Deliveries.action_mask(self, state)["drone"]}},
        ),
        r"^roles\['truck'\]: pointers make up 6 actions, its action has 0$",
    ),
}


@pytest.mark.parametrize(("env", "message"), BROKEN_ENTITIES.values(), ids=BROKEN_ENTITIES)
def test_check_shapes_names_what_is_wrong_with_entities(env, message):
    with pytest.raises(ConformanceError, match=message) as caught:
        check_shapes(env)
    assert "\n" not in str(caught.value)


MISSHOWN_ENTITIES = {
    "static ones that change": (
        "static_entities",
        lambda planes, state: altered(planes, "drone", lambda rows: rows + jnp.where(state.step == 2, 1.0, 0.0)),
        r"^static_entities\['drone'\]: changes during an episode; what changes belongs into entities \(step 2, ",
    ),
    "static ones that are not finite": (
        "static_entities",
        lambda planes, state: altered(planes, "drone", lambda rows: rows / 0.0),
        r"^static_entities\['drone'\]: NaN or infinite; everything that is told must be finite \(step 1, ",
    ),
    "dynamic ones that are not finite": (
        "entities",
        lambda planes, state: altered(planes, "customer", lambda rows: rows.at[1].divide(2.0 - state.step)),
        r"^entities\['customer'\]: NaN or infinite; everything that is told must be finite \(step 2, ",
    ),
    "a void row with numbers": (
        "entities",
        lambda planes, state: altered(planes, "customer", lambda rows: rows.at[1].set(1.0)),
        r"^entities\['customer'\]: an entity is not there \(plane 0\), but has numbers; they must be 0 \(step ",
    ),
    "half there": (
        "entities",
        lambda planes, state: altered(planes, "drone", lambda rows: rows.at[0].multiply(0.5)),
        r"^entities\['drone'\]: plane 0 must be 1 where an entity is there, else 0 \(step 1, ",
    ),
}


@pytest.mark.slow("static ones that are not finite", "dynamic ones that are not finite")
@pytest.mark.parametrize(("function", "change", "message"), MISSHOWN_ENTITIES.values(), ids=MISSHOWN_ENTITIES)
def test_check_env_names_entities_that_are_misshown(function, change, message):
    with pytest.raises(ConformanceError, match=message) as caught:
        check_env(showing(function, change))
    assert "\n" not in str(caught.value)
