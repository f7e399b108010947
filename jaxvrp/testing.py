"""The conformance suite of the environment contract, for users' own environments and scenarios.

`check_shapes` only traces an environment (a fraction of a second); `check_env` also plays episodes under legal,
arbitrary and idle actions, and prints what it checked. Both raise `ConformanceError`: one line with the function, what
is wrong, and the remedy.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxvrp.actor import sample_masked
from jaxvrp.environment import Environment, State, TimeStep, require_environment
from jaxvrp.io.messages import nearest
from jaxvrp.io.states import described
from jaxvrp.registry import card_of
from jaxvrp.spaces import Box, Discrete, Role

POLICIES = ("legal", "arbitrary", "idle")
"""How the rows of a batch are played, in turn."""

TOLERANCE = 1e-5
"""Absolute and relative, between two compilations of the same float32 arithmetic."""

ADDED = {"episode_return": "VecEnv", "episode_length": "VecEnv", "episodes": "VecEnv"}
ADDED |= {"return": "evaluation", "length": "evaluation"}
"""Names that no metric may have, and what adds a figure of that name, which would take its place."""

SHAPES = (
    "roles: names, numbers of agents, spaces, what actions point at",
    "types: structure, shapes and dtypes of what every function returns",
    "tracing: step returns the types of reset, also where parameters are arguments of jit",
)
"""What `check_shapes` checks, a line each."""

PLAYED = (
    "reset: one key gives one problem, with and without jit",
    "numbers: finite, and observations inside of their Box",
    "masks: each agent has a legal action, and the fallback of illegal ones is legal",
    "illegal actions: counted once each, where `invalid_actions` is a metric",
    "time: each step takes some, and episodes end within max_episode_steps",
    "ends: a finished state stays as it is, and pays 0",
    "entities: static ones never change, void ones are 0",
    "compilation: step is compiled once",
    "agreement: batch and loop, parameters as arguments and as constants, with and without jit",
)
"""What `check_env` checks beside that, a line each."""

Failed = dict[str, jax.Array]
"""`{message: bool[]}`, whether a check fails."""


class ConformanceError(AssertionError):
    """An environment breaks the contract; the message is one line with the remedy."""


def check_env(
    env: Environment,
    key: jax.Array | None = None,
    num_steps: int | None = None,
    batch: int = 6,
    *,
    quiet: bool = False,
) -> None:
    """Check everything that the contract of `jaxvrp.Environment` promises, and print what was checked.

    Args:
        env: the environment, any parameters.
        key: typed key of the instances and actions; a fixed one by default.
        num_steps: steps to play; by default a few more than `env.max_episode_steps`, so that episodes must end.
        batch: environments played together, at least 3: one each for legal, arbitrary and idle actions.
        quiet: print nothing.

    Raises:
        ConformanceError: what is wrong, in one line.
        TypeError: it is no environment.
    """
    say = (lambda lines: None) if quiet else _print_passed
    check_shapes(env)
    say(SHAPES)
    _require(batch >= len(POLICIES), f"check_env: batch is {batch}; it must be at least {len(POLICIES)}")
    num_steps = env.max_episode_steps + 5 if num_steps is None else num_steps
    program = _Program(env)
    *keys, play_key = jax.random.split(jax.random.key(0) if key is None else key, batch + 1)
    start, failed = _call("reset under jit and vmap", program.reset, jnp.stack(keys))
    _check_reset(env, keys[0], program.row(start, 0), failed)
    _require(not start[1].done.all(), "is_terminal or is_truncated holds in every fresh state; nothing can be played")
    _check_agreement(program, _play_episodes(program, play_key, start, num_steps))
    say(PLAYED)
    if not quiet:
        players = ", ".join(POLICIES)
        print(f"{type(env).__name__} is sound: {num_steps} steps of {batch} environments, {players} actions")


def _print_passed(checks: Sequence[str]) -> None:
    for check in checks:
        print(f"passed  {check}")


def check_shapes(env: Environment) -> None:
    """Check the roles, and the structure, shapes and dtypes of everything that the environment returns; runs nothing.

    Raises:
        ConformanceError: what is wrong, in one line.
        TypeError: it is no environment.
    """
    require_environment(env)
    key = jax.eval_shape(lambda: jax.random.key(0))
    instance = _abstract("generate", env.generate, key)
    state = _abstract("init_state", env.init_state, instance)
    observation = _abstract("observation", env.observation, state)
    _check_roles(env, observation)
    _check_functions(env, state, observation)
    _check_types(env, state, key)


class _Program:
    """What is compiled, once; `traces` counts the compilations of `play`."""

    def __init__(self, env: Environment):
        self.env, self.roles, self.traces = env, env.roles, 0
        self.leaves = jax.tree.map(np.asarray, env)
        self.reset = jax.jit(jax.vmap(self._reset))
        self.play = jax.jit(jax.vmap(self._play, in_axes=(None, 0, 0, 0)))
        self.single = jax.jit(lambda env, state, action: env.step(state, action))
        self.constant = jax.jit(env.step)
        self.row = jax.jit(lambda tree, row: jax.tree.map(lambda leaf: leaf[row], tree))

    def _reset(self, key: jax.Array) -> tuple[Any, Failed]:
        """(state, timestep), and `Failed`."""
        start = self.env.reset(key)
        return start, _not_sound(self.env, start[1])

    def _play(self, env: Environment, uniform: dict[str, jax.Array], row: jax.Array, before: Any) -> tuple[Any, ...]:
        """The actions, (next state, next timestep), and `Failed`; `before` is (state, timestep)."""
        self.traces += 1
        policy, mask = row % len(POLICIES), before[1].action_mask
        action = {name: _draw(role, mask.get(name), uniform[name], policy) for name, role in self.roles.items()}
        after = env.step(before[0], action)
        failed = _not_sound(self.env, after[1]) | _not_counted(self.roles, action, before[1], after[1])
        failed |= _not_fixed(before, after) | _not_static(self.env, before[0], after)
        took_time = (after[1].duration >= 1) & jnp.isfinite(after[1].duration)
        failed["duration: below 1, or not finite"] = ~before[1].done & ~took_time
        unsaid = {"duration": ~before[1].done & (after[1].duration != 1), "is_truncated": after[1].truncated}
        failed |= {
            f"{name}: learners ignore it, since extras do not name it": happened
            for name, happened in unsaid.items()
            if name not in self.env.extras
        }
        return action, after, failed


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ConformanceError(message)


def _call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Whatever a user's function raises becomes one line that names it, and the innermost place outside JAX."""
    try:
        return function(*arguments)
    except Exception as error:
        first_line = (str(error).strip().splitlines() or [""])[0]
        message = f"{name} raised {type(error).__name__}: {first_line[:300]}"
        not_the_users = (os.path.dirname(jax.__file__), __file__)
        frames = traceback.extract_tb(error.__traceback__)
        if users := [frame for frame in frames if not frame.filename.startswith(not_the_users)]:
            message += f" ({os.path.basename(users[-1].filename)}:{users[-1].lineno})"
        if isinstance(error, jax.errors.JAXTypeError | jax.errors.JAXIndexError):
            message += "; values are not known while tracing: use jnp, jnp.where and static sizes"
        raise ConformanceError(message) from error


def _abstract(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Types of what `function` returns, none of them weak."""
    types = _call(name, jax.eval_shape, function, *arguments)
    for path, leaf in _by_path(types).items():
        weak = getattr(leaf, "weak_type", False)
        _require(
            not weak, f"{name}{path}: weak type {described(leaf)}; give it a dtype, jnp.asarray(x, jnp.{leaf.dtype})"
        )
    return types


def _by_path(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _check_keys(name: str, got: Any, wanted: set[str] | None = None) -> None:
    _require(isinstance(got, Mapping), f"{name}: got {type(got).__name__}; it must be a dict by role or name")
    _require(wanted in (None, set(got)), f"{name}: has the keys {sorted(got)}, expected {sorted(wanted or ())}")


def _check_array(name: str, got: Any, dtype: str, shape: tuple[int, ...] | None, remedy: str) -> None:
    _require(hasattr(got, "shape"), f"{name}: got {type(got).__name__}, expected one array; {remedy}")
    _require(shape in (None, got.shape), f"{name}: shape {got.shape}, expected {shape}; {remedy}")
    _require(got.dtype == dtype, f"{name}: dtype {got.dtype}, expected {dtype}; use .astype or an explicit dtype")


def _check_roles(env: Environment, observation: Any) -> None:
    """The roles; `observation` is what `env.observation` returns, as types."""
    # A broken observation is reported before the roles, which may depend on it.
    _check_keys("observation", observation)
    for name, array in observation.items():
        _check_array(f"observation['{name}']", array, "float32", None, "one array, a row per agent")
    roles = _call(f"roles (observation has the keys {sorted(observation)})", lambda: env.roles)
    _require(isinstance(roles, Mapping) and roles, f"roles: got {roles!r}; it must be a dict with at least one Role")
    for name, role in roles.items():
        path = f"roles['{name}']"
        _require(isinstance(name, str) and isinstance(role, Role), f"{path}: got {role!r}; it must be a jaxvrp.Role")
        _require(_is_count(role.num_agents), f"{path}: num_agents is {role.num_agents!r}; it must be an int, 1 or more")
        _require(isinstance(role.observation, Box), f"{path}: observation is {role.observation!r}; it must be a Box")
        for space in (role.observation, role.action):
            _require(isinstance(space, Discrete | Box), f"{path}: action is {space!r}; it must be Discrete or Box")
            filled = space.low < space.high if isinstance(space, Box) else _is_count(space.num_actions)
            _require(filled, f"{path}: {space} is empty; low must be below high, and num_actions an int, 1 or more")
    steps = _call("max_episode_steps", lambda: env.max_episode_steps)
    _require(_is_count(steps), f"max_episode_steps: got {steps!r}; it must be an int of at least 1, static")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)


def _check_functions(env: Environment, state: State, observation: Any) -> None:
    roles = env.roles
    discrete = {name: role.action for name, role in roles.items() if isinstance(role.action, Discrete)}
    agents = {name: (role.num_agents,) for name, role in roles.items()}
    observed = {name: (role.num_agents, *role.observation.shape) for name, role in roles.items()}
    legal = {name: (roles[name].num_agents, action.num_actions) for name, action in discrete.items()}
    by_role: dict[str, tuple[str, Mapping[str, tuple[int, ...]], str]] = {
        "observation": ("float32", observed, "a row per agent"),
        "action_mask": ("bool", legal, "a row per agent, a column per action"),
        "reward": ("float32", agents, "one number per agent (a scenario's reward: one f32[] for all)"),
        "valid": ("bool", agents, "one truth value per agent"),
    }
    for function in ("is_terminal", "is_truncated"):
        got = _abstract(function, getattr(env, function), state)
        _check_array(function, got, "bool", (), "one truth value per episode")
    _check_array("duration", _abstract("duration", env.duration, state), "float32", (), "one number per step")
    for function, (dtype, shapes, remedy) in by_role.items():
        got = observation if function == "observation" else _abstract(function, getattr(env, function), state)
        _check_keys(function, got, set(shapes) & set(got) if function == "valid" else set(shapes))
        for name, array in got.items():
            _check_array(f"{function}['{name}']", array, dtype, shapes[name], remedy)
    _check_entities(env, state)
    known = {(), (sum(role.num_agents for role in roles.values()),), *agents.values()}
    metrics = _abstract("metrics", env.metrics, state)
    _check_keys("metrics", metrics)
    for name, array in metrics.items():
        _check_array(f"metrics['{name}']", array, "float32", None, "f32[] or f32[agents]")
        _require(array.shape in known, f"metrics['{name}']: shape {array.shape}, expected one of {sorted(known)}")
        _require(name not in ADDED, f"metrics['{name}']: {ADDED.get(name)} adds this; rename it")
    _check_headlines(env, metrics)


def _check_headlines(env: Environment, metrics: Mapping[str, Any]) -> None:
    """Whether the card's headlines are metrics, or of a single agent of one."""
    known = [*metrics, *(f"{name}_{agent}" for name, array in metrics.items() for agent in range(array.size))]
    for headline in card_of(env).headlines:
        if not headline.optional:
            _require(
                headline.metric in known, f"headlines: no metric '{headline.metric}'; {nearest(headline.metric, known)}"
            )


def _check_entities(env: Environment, state: State) -> None:
    """What all agents see: planes of the kinds that are named, or else one vector."""
    kinds = _call("entity_kinds", lambda: env.entity_kinds)
    for function, part in (("static_entities", "static"), ("entities", "dynamic")):
        got = _abstract(function, getattr(env, function), state)
        _check_keys(function, got, {kind.name for kind in kinds})
        for kind in kinds:
            shape, remedy = (len(getattr(kind, part)), kind.count), f"a plane for each of its {part} features"
            _check_array(f"{function}['{kind.name}']", got[kind.name], "float32", shape, remedy)
    whole = _abstract("global_observation", env.global_observation, state)
    if not kinds or whole is not None:
        remedy = "one vector (None is for environments with entity_kinds)"
        _check_array("global_observation", whole, "float32", (getattr(whole, "size", 0),), remedy)
    for kind in kinds:
        subject, names = f"entity kind '{kind.name}'", [feature.name for feature in kind.features]
        _require(kind.dynamic, f"{subject}: no dynamic features; the first one says whether it is there")
        _require(len(set(names)) == len(names), f"{subject}: two features have one name")
        unknown = [name for place in kind.places for name in place if name not in names]
        _require(not unknown, f"{subject}: its places name {unknown}, which are none of its features")
    for name, role in env.roles.items():
        _check_context(f"roles['{name}']", role, {kind.name: kind.count for kind in kinds})


def _check_context(path: str, role: Role, counts: dict[str, int]) -> None:
    """A role's names for what it sees, and what its actions point at."""
    size, names = role.observation.shape, [feature.name for feature in role.context]
    _require(not names or size == (len(names),), f"{path}: context names {len(names)} numbers, observation has {size}")
    _require(not counts or names, f"{path}: entities are seen, so context must name the numbers of its observation")
    unknown = [name for place in role.places for name in place if name not in names]
    _require(not unknown, f"{path}: places names {unknown}, which are not in its context")
    if role.pointers:
        lost = [pointer.kind for pointer in role.pointers if pointer.kind not in (None, *counts)]
        _require(not lost, f"{path}: pointers name {lost}, which are none of entity_kinds")
        actions = sum(pointer.per_entity * counts.get(pointer.kind or "", 1) for pointer in role.pointers)
        expected = getattr(role.action, "num_actions", 0)
        _require(actions == expected, f"{path}: pointers make up {actions} actions, its action has {expected}")


def _check_types(env: Environment, state: State, key: jax.Array) -> None:
    """The same types from `transition`, `reset` and `step`, also with the environment's parameters as traced arrays."""

    def episode(env: Environment, key: jax.Array) -> tuple[Any, Any]:
        start = env.reset(key)
        return start, env.step(start[0], action)

    for path, leaf in _by_path(env).items():
        remedy = "make a size static, as by jaxvrp.fields.size, and a parameter a float"
        _require(type(leaf) is not int, f"env{path}: got the whole number {leaf}; {remedy}")
    action = {name: jnp.zeros((r.num_agents, *r.action.shape), r.action.dtype) for name, r in env.roles.items()}
    moved = _abstract("transition", env.transition, state, action, jax.ShapeDtypeStruct((), jnp.int32))
    _check_same_types("transition", "init_state", moved, state)
    start, after = _abstract("reset and step", lambda key: episode(env, key), key)
    _check_same_types("step", "reset", after, start)
    subject = "reset and step with the environment as an argument of jit (sizes and kinds must be static fields)"
    # Python's floats are weakly typed, NumPy's are not: with 64 bits enabled they would widen everything.
    parameters = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32 if isinstance(leaf, float) else None), env)
    traced = _abstract(subject, episode, parameters, key)
    _check_same_types("step with traced parameters", "step", traced, (start, after))


def _check_same_types(later: str, earlier: str, new: Any, old: Any) -> None:
    new_types, old_types = _by_path(new), _by_path(old)
    for path in sorted(old_types.keys() | new_types.keys()):
        got, wanted = (described(types[path]) if path in types else "nothing" for types in (new_types, old_types))
        _require(got == wanted, f"{later}{path}: {got}, but {wanted} from {earlier}; types must not change")
    # As lists: what is identical is equal, also where static fields cannot be compared.
    same_structure = [jax.tree.structure(new)] == [jax.tree.structure(old)]
    _require(
        same_structure,
        f"{later}: other structure than from {earlier}; return the same pytree classes and static fields",
    )


def _draw(role: Role, mask: Any, uniform: jax.Array, policy: jax.Array) -> jax.Array:
    """Actions of a role by one of `POLICIES`; idle is index 0, or the point of the box that is nearest to 0.

    `uniform`, `f32[3, agents, ...]`, is NumPy's: several draws by threefry would take most of the compile time.
    """
    space, shape = role.action, uniform.shape[1:]
    if isinstance(space, Discrete):
        legal = sample_masked(uniform[0], mask)
        arbitrary = jnp.floor(uniform[1] * (space.num_actions + 4)).astype(jnp.int32) - 2
        extremes, idle = np.array([-(2**31), 2**31 - 1]), jnp.zeros(shape, jnp.int32)
    else:
        low, high = max(space.low, -1e3), min(space.high, 1e3)
        legal = jnp.clip(low + (high - low) * uniform[0], low, high)
        arbitrary = low + (high - low) * (3 * uniform[1] - 1)
        extremes, idle = np.array([np.nan, np.inf, -np.inf]), jnp.full(shape, np.clip(0.0, low, high), jnp.float32)
    for i, extreme in enumerate(extremes):
        arbitrary = jnp.where(jnp.floor(12 * uniform[2]) == i, jnp.asarray(extreme, arbitrary.dtype), arbitrary)
    return jax.lax.select_n(policy, legal, arbitrary, idle)


def _numbers(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _not_fixed(before: tuple[State, TimeStep], after: tuple[State, TimeStep]) -> Failed:
    done, new = before[1].done, _by_path(after[0])
    failed = {"step: a finished episode is not done any more": done & ~after[1].done}
    for path, leaf in _by_path(before[0]).items():
        same = jnp.array_equal(_numbers(leaf), _numbers(new[path]), equal_nan=True)
        failed[f"step: a finished state changes, in state{path}; it must stay as it is"] = done & ~same
    for name, reward in after[1].reward.items():
        failed[f"step: a finished state pays a reward['{name}']; it must pay 0"] = done & (reward != 0).any()
    return failed


def _not_static(env: Environment, before: State, after: tuple[State, TimeStep]) -> Failed:
    failed, static = {}, env.static_entities(after[0])
    for name, planes in env.static_entities(before).items():
        subject = f"static_entities['{name}']"
        failed[f"{subject}: changes during an episode; what changes belongs into entities"] = (
            planes != static[name]
        ).any()
        failed[f"{subject}: NaN or infinite; everything that is told must be finite"] = ~jnp.isfinite(planes).all()
    for name, planes in after[1].entities.items():
        void = (planes[0] == 0) & (planes != 0).any(axis=0)
        failed[f"entities['{name}']: an entity is not there (plane 0), but has numbers; they must be 0"] = void.any()
        strange = (planes[0] != 0) & (planes[0] != 1)
        failed[f"entities['{name}']: plane 0 must be 1 where an entity is there, else 0"] = strange.any()
    return failed


def _not_sound(env: Environment, timestep: TimeStep) -> Failed:
    observation, failed, fallback = timestep.observation, {}, env.fallback(timestep.action_mask)
    values = {"observation": observation, "reward": timestep.reward, "metrics": timestep.metrics}
    shown = {"global_observation": timestep.global_observation, "entities": timestep.entities, **values}
    for path, leaf in _by_path(shown).items():
        name = path.removeprefix("['").replace("']", "", 1)
        failed[f"{name}: NaN or infinite; everything that is told must be finite"] = ~jnp.isfinite(leaf).all()
    for name, mask in timestep.action_mask.items():
        subject = f"action_mask['{name}']"
        failed[f"{subject}: a row has no legal action; one must always be legal"] = ~mask.any(axis=1).all()
        legal = jnp.take_along_axis(mask, fallback[name][:, None], axis=1)
        failed[f"{subject}: forbids the fallback of illegal actions (index 0, unless overridden)"] = ~legal.all()
    for name, box in ((name, role.observation) for name, role in env.roles.items()):
        slack = TOLERANCE * (1 + max((abs(x) for x in (box.low, box.high) if np.isfinite(x)), default=0.0))
        outside = (observation[name] < box.low - slack) | (observation[name] > box.high + slack)
        failed[f"observation['{name}']: outside of the Box in its role, [{box.low}, {box.high}]"] = outside.any()
    return failed


def _not_counted(roles: dict[str, Role], action: dict[str, jax.Array], before: TimeStep, after: TimeStep) -> Failed:
    if "invalid_actions" not in after.metrics:
        return {}
    illegal = jnp.zeros((), jnp.int32)
    for name, role in roles.items():
        legal = role.action.contains(action[name])
        if isinstance(role.action, Discrete):
            index = jnp.clip(action[name], 0, role.action.num_actions - 1)
            legal &= jnp.take_along_axis(before.action_mask[name], index[:, None], axis=1)[:, 0]
        illegal += jnp.sum(~legal & before.valid.get(name, True), dtype=jnp.int32)
    counted = after.metrics["invalid_actions"].sum() - before.metrics["invalid_actions"].sum()
    message = "metrics['invalid_actions']: illegal actions are not counted once each; add transition's `num_invalid`"
    return {message: counted != jnp.where(before.done, 0, illegal)}


def _check_reset(env: Environment, key: jax.Array, compiled: tuple[State, TimeStep], failed: Failed) -> None:
    """`compiled` is what `key` gives, `failed` of all rows."""
    plain = _call("reset without jit", env.reset, key)
    if _difference(plain, compiled):  # another draw, or another program?
        again = _call("reset without jit", env.reset, key)
        _check_equal("reset twice with one key", plain, again, "draw from the key alone, not from NumPy or Python")
        _check_equal("reset with and without jit", plain, compiled, "generate and init_state must be pure")
    for message, rows_failed in jax.device_get(failed).items():
        _require(not rows_failed.any(), f"{message} (after reset)")


def _play_episodes(program: _Program, key: jax.Array, before: tuple[State, TimeStep], num_steps: int) -> list[Any]:
    """Play on in every row; returns a few (state, action, (next state, next timestep)) to compare with."""
    rows, sampled, limit = np.arange(before[1].done.shape[0], dtype=np.int32), [], program.env.max_episode_steps
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    shapes = {name: (len(rows), 3, role.num_agents, *role.action.shape) for name, role in program.roles.items()}
    for time in range(num_steps):
        uniform = {name: random.random(shape, np.float32) for name, shape in shapes.items()}
        action, after, failed = _call("step under jit and vmap", program.play, program.leaves, uniform, rows, before)
        if time in (0, limit // 4, limit // 2):
            sampled.append((before[0], action, after))
        for message, rows_failed in jax.device_get(failed).items():
            policies = [POLICIES[row % len(POLICIES)] for row in np.flatnonzero(rows_failed)]
            _require(not policies, f"{message} (step {time + 1}, {', '.join(policies[:1])} actions)")
        _require(time + 1 != limit or after[1].done.all(), f"is_terminal: no end after max_episode_steps = {limit}")
        before = after
    _require(program.traces <= 1, f"step was compiled {program.traces} times; static fields must not change")
    return sampled


def _check_agreement(program: _Program, sampled: list[Any]) -> None:
    """A batch against a loop, parameters as arguments against constants, compiled against plain."""
    for row in range(len(POLICIES)):
        for number, states in enumerate(sampled):
            state, action, batched = program.row(states, row)
            constant = program.constant(state, action)
            if _difference(batched, constant):  # of the batch, or of the parameters?
                looped = program.single(program.leaves, state, action)
                _check_equal(
                    "vmap(step) and a loop over step", batched, looped, "reduce over agents, not over the batch"
                )
                subject = "step with parameters as arguments and as constants"
                _check_equal(subject, looped, constant, "read them from self")
            # A plain step takes as long as all the others: one for every policy, each at another time.
            if number == row % len(sampled):
                plain = _call("step without jit", program.env.step, state, action)
                _check_equal("step with and without jit", plain, constant, "no Python state, no NumPy randomness")


def _difference(a: Any, b: Any) -> str:
    """The path of the first leaf that differs, floats by more than the tolerance; "" if none does."""
    others = _by_path(jax.device_get(jax.tree.map(_numbers, b)))
    for path, x in _by_path(jax.device_get(jax.tree.map(_numbers, a))).items():
        y, real = others[path], np.issubdtype(x.dtype, np.floating)
        if not (np.allclose(x, y, TOLERANCE, TOLERANCE, equal_nan=True) if real else np.array_equal(x, y)):
            return path
    return ""


def _check_equal(subject: str, a: Any, b: Any, remedy: str) -> None:
    """Nothing differs, see `_difference`."""
    path = _difference(a, b)
    name = path.replace("[0]", "state", 1) if path.startswith("[0]") else path.replace("[1]", "timestep", 1)
    _require(not path, f"{subject} differ in {name}; {remedy}")
