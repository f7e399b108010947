"""Names of environments and scenarios: what builds them, and what belongs to them: card, players, and the other parts.

Built-in ones are given as `module:attribute` and imported on first use, so `import jaxvrp` stays light. A name may come
from a file of another author: what a dotted path leads to is called only if it is a class of environments, or
registered.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax

from jaxvrp import fields
from jaxvrp.card import Card, Headline
from jaxvrp.environment import Environment
from jaxvrp.io.messages import nearest, shown
from jaxvrp.players import Players
from jaxvrp.problems import Problems
from jaxvrp.serialization import register_types
from jaxvrp.toolbox import Toolbox, View

Factory = Callable[..., Any]
Part = TypeVar("Part", Card, Players, Toolbox)


@dataclasses.dataclass(frozen=True)
class Entry:
    """The meaning of a name.

    Attributes:
        factory: makes the environment or scenario from keywords; or a dotted path to such a function.
        toolbox: of the environments and states that the factory's module or package defines; or a dotted path.
        card, players: dotted paths, where they are not parts of the toolbox: who trains imports no more than these.
        reads: common endings of the problem files that the toolbox reads.
        num_roles: of an environment with the default parameters; None if unknown before the environment is made.
        alone: scenarios that have one role where the default one has several.
    """

    factory: str | Factory
    toolbox: str | Toolbox | None = None
    reads: tuple[str, ...] = ()
    num_roles: int | None = None
    alone: tuple[str, ...] = ()
    card: str | None = None
    players: str | None = None

    @property
    def module(self) -> str:
        """Where the factory is defined."""
        return self.factory.partition(":")[0] if isinstance(self.factory, str) else self.factory.__module__

    def defines(self, ancestor: type) -> bool:
        """Whether a class is the factory, or stands in its module or package."""
        path = ancestor.__module__
        return self.factory is ancestor or path == self.module or path.startswith(self.module + ".")


def _shipped(folder: str, reads: tuple[str, ...], num_roles: int, alone: tuple[str, ...] = ()) -> Entry:
    """An environment in a folder of `jaxvrp.envs`, laid out as all of them are."""
    path = f"jaxvrp.envs.{folder}"
    card, players = f"{path}.card:CARD", f"{path}.players:PLAYERS"
    return Entry(f"{path}:make", f"{path}.toolbox:TOOLBOX", reads, num_roles, alone, card, players)


_ENTRIES: dict[str, dict[str, Entry]] = {
    "environment": {
        "darp": _shipped("darp", (".txt", ".npz"), num_roles=1),
        "dispatch": _shipped("dispatch", (".npz", ".json"), num_roles=2, alone=("same_day", "chen_ulmer_thomas")),
        "pcb": _shipped("pcb", (".pcb", ".nodes", ".npz"), num_roles=1),
        "truck_drone": _shipped("truck_drone", (".json",), num_roles=2),
        "flying_sidekicks": _shipped("flying_sidekicks", (".csv", ".npz"), num_roles=1),
        "truck_drone_tours": _shipped("truck_drone_tours", (".csv", ".npz"), num_roles=2),
        "tsp_drone": _shipped("tsp_drone", (".txt", ".npz"), num_roles=2),
        "vrpd_tw": Entry("jaxvrp.envs.truck_drone.scenarios:make_vrpd_tw", num_roles=2),
    },
    "scenario": {
        "truck_drone_basic": Entry("jaxvrp.envs.truck_drone.scenarios:TruckDroneBasic"),
        "truck_drone_same_day": Entry("jaxvrp.envs.truck_drone.scenarios:TruckDroneSameDay"),
        "vrpd_tw": Entry("jaxvrp.envs.truck_drone.scenarios:VrpdTw"),
    },
}


def register(name: str, factory: Factory, *, toolbox: str | Toolbox | None = None) -> None:
    """Make `factory` known as `name`, for `make(name)`, or, if it is a scenario class, for `make(..., scenario=name)`.

    Args:
        name: without a colon.
        factory: a class of environments, or a function that makes one.
        toolbox: of the environments that are defined in the factory's module or package; a `Toolbox`, or a dotted path
            `package.module:NAME` that is imported when it is first needed.

    Raises:
        ValueError: the name is taken by another factory, or is a dotted path.
        TypeError: `name`, `factory` or `toolbox` is of another type.
    """
    _require_text("the name to register", name)
    if not callable(factory):
        raise TypeError(f"register('{name}', ...) needs a factory (a class or a function); got {factory!r}")
    if not isinstance(toolbox, str | Toolbox | None):
        raise TypeError(f"register('{name}', ...): toolbox is {toolbox!r}; give a jaxvrp.Toolbox, or a dotted path")
    if ":" in name:
        raise ValueError(f"cannot register '{name}': a name has no ':'; its dotted path works beside its name")
    known = _ENTRIES[getattr(factory, "registry_kind", "environment")]
    if name in known and known[name].factory is not factory:
        raise ValueError(f"cannot register '{name}': the name is taken; choose another")
    known[name] = Entry(factory, toolbox)


def registered(kind: str = "environment") -> tuple[str, ...]:
    """The known names, sorted; `kind` is `"environment"` or `"scenario"`."""
    return tuple(sorted(_ENTRIES[kind]))


def has_one_role(name: str) -> bool:
    """Whether an environment has one role with its default parameters; True also if it has required parameters."""
    num_roles = _ENTRIES["environment"][name].num_roles
    if num_roles is None:
        try:
            num_roles = len(make(name).roles)
        except (TypeError, ValueError):
            return True
    return num_roles == 1


def scenarios_with_one_role() -> Iterator[tuple[str, str]]:
    """Environments and their scenarios that have one role, of environments whose default scenario has several."""
    return ((name, scenario) for name, entry in _ENTRIES["environment"].items() for scenario in entry.alone)


def resolve(name: str, kind: str = "environment") -> Factory:
    """The factory behind a registered name or a dotted path `package.module:attribute`, whose module is imported.

    A dotted path leads to a class of that kind, or to a registered function.

    Raises:
        ValueError: the name is unknown, or the path leads to something else; the message names the remedy.
        TypeError: the name is no text.
    """
    _require_text(f"the name of the {kind}", name)
    if ":" in name:
        return _checked_callable(_import(name, kind), name, kind)
    known = _ENTRIES[kind]
    if name not in known:
        if kind == "environment" and name in _ENTRIES["scenario"]:
            raise ValueError(
                f"unknown environment {shown(name)}, which is a scenario; give its environment, and this as scenario "
                "(jaxvrp list has both)"
            )
        raise ValueError(
            f"unknown {kind} {shown(name)}; {nearest(name, known)}; name your own as 'package.module:attribute'"
        )
    factory = known[name].factory
    return _import(factory, kind) if isinstance(factory, str) else factory


def _require_text(label: str, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"{label} is {shown(name)}; it must be a text, such as 'darp'")


def make(name: str, **parameters: Any) -> Environment:
    """Build an environment by name or dotted path; `parameters` go to its factory, checked if that is a class.

    The types of its states are registered for `jax.export`, see `jaxvrp.serialization`.

    Raises:
        ValueError: the name or a parameter is unknown, or a value is out of range; one line that says which.
        TypeError: a value has the wrong type, or the factory returns no `Environment`.
    """
    factory = resolve(name)
    if isinstance(factory, type) and issubclass(factory, Environment):
        env: Any = fields.build(factory, parameters, f"parameter of {shown(name)}:")
    else:
        env = factory(**parameters)
    if not isinstance(env, Environment):
        raise TypeError(f"'{name}' returned {type(env).__name__}; a factory must return a jaxvrp.Environment")
    for package in ("jaxvrp", type(env).__module__.partition(".")[0]):
        register_types(package)
    return env


@functools.singledispatch
def card_of(env: Environment) -> Card:
    """What learners, tables and configurations read of an environment; errors as of `toolbox_of`.

    To the headlines of an environment that has a card come the metrics of one number that a class of its user adds.
    """
    found = _part_of(env, "card", Card)
    return dataclasses.replace(found, headlines=(*found.headlines, *_added(env))) if found.headlines else found


@functools.singledispatch
def players_of(env: Environment) -> Players:
    """Who plays an environment besides policies; errors as of `toolbox_of`.

    Baselines that only repeat another one there are left out.
    """
    return _part_of(env, "players", Players).of(env)


@functools.singledispatch
def toolbox_of(subject: object) -> Toolbox:
    """What draws an environment and its states, and reads its files; an empty one if there is nothing.

    Raises:
        ValueError: what is registered cannot be found.
    """
    return _part_of(subject, "toolbox", Toolbox)


def problems_of(env: Environment) -> Problems[Any] | None:
    """Problems in files for an environment; None if it reads none; errors as of `toolbox_of`."""
    return toolbox_of(env).problems


@functools.singledispatch
def name_of(env: Environment) -> str:
    """The name that an environment is registered under, or the nearest of its ancestors; else that of its class."""
    found = (
        name
        for ancestor in type(env).__mro__
        for name, entry in _ENTRIES["environment"].items()
        if entry.defines(ancestor)
    )
    return next(found, type(env).__name__)


def all_problems(ending: str = "") -> Iterator[tuple[str, Problems[Any]]]:
    """Problems in files by the names of environments, first those whose files have this ending.

    Raises:
        ValueError: those of an environment cannot be found.
    """
    entries = sorted(_ENTRIES["environment"].items(), key=lambda named: ending not in named[1].reads)
    for name, entry in entries:  # imported when its turn comes
        if entry.toolbox is not None and (problems := _part(entry, "toolbox", Toolbox).problems):
            yield name, problems


def all_cards() -> dict[str, Card]:
    """The cards of environments, by name; errors as of `all_problems`."""
    entries = _ENTRIES["environment"].items()
    return {name: _part(entry, "card", Card) for name, entry in entries if entry.toolbox is not None}


def problem_endings() -> list[str]:
    """The common endings of problem files, sorted."""
    return sorted({ending for entry in _ENTRIES["environment"].values() for ending in entry.reads})


def view_of_kind(kind: str) -> View:
    """The view of episodes of a `kind`, the registered name of an environment.

    Raises:
        ValueError: there is no such environment, or it has none.
    """
    entries = {name: entry for name, entry in _ENTRIES["environment"].items() if entry.toolbox}
    view = _part(entries[kind], "toolbox", Toolbox).view if kind in entries else None
    if view is None:
        known = sorted(name for name, entry in entries.items() if _part(entry, "toolbox", Toolbox).view)
        raise ValueError(f"kind is {shown(kind)}; it must be one of: {', '.join(known)}")
    return view


def _checked_callable(found: Any, path: str, kind: str) -> Factory:
    """What a dotted path leads to, refused unless it is a class of that kind, or registered."""
    is_environment = inspect.isclass(found) and issubclass(found, Environment)
    if is_environment and kind in ("environment", getattr(found, "registry_kind", None)):
        return found
    for entry in _ENTRIES[kind].values():
        factory: Any = entry.factory
        if isinstance(factory, str):  # compared without importing anything
            module_name, _, attribute = factory.partition(":")
            factory = getattr(sys.modules.get(module_name), attribute, None)
        if found is not None and factory is found:
            return found
    remedy = {
        "environment": "name a class derived from jaxvrp.Environment, or register the function in its module: "
        f"jaxvrp.register('NAME', {path.partition(':')[2]})",
        "scenario": "name a class of scenarios, derived from jaxvrp.envs.truck_drone.TruckDrone, say",
    }
    raise ValueError(
        f"{kind} {shown(path)} is neither a class of {kind}s nor registered, so it is not called; {remedy[kind]}"
    )


def _added(env: Environment) -> Iterator[Headline]:
    """The metrics of one number that the class of an environment has, and the registered ancestor has not."""
    owner = _owner(env)
    ancestor: type[Environment] = owner[0] if owner else type(env)
    if type(env).metrics is ancestor.metrics:
        return
    state = jax.eval_shape(lambda: env.init_state(env.generate(jax.random.key(0))))
    known = jax.eval_shape(functools.partial(ancestor.metrics, env), state)
    for name, metric in jax.eval_shape(env.metrics, state).items():
        if name not in known and metric.shape == ():
            yield Headline(name, name.replace("_", " "))


def _owner(subject: object) -> tuple[type[Any], Entry] | None:
    """The nearest ancestor of an environment, or of one of its states, that is registered with a toolbox."""
    entries = [entry for known in _ENTRIES.values() for entry in known.values() if entry.toolbox is not None]
    found = ((ancestor, entry) for ancestor in type(subject).__mro__ for entry in entries if entry.defines(ancestor))
    return next(found, None)


def _part_of(subject: object, name: str, kind: type[Part]) -> Part:
    """The part of that kind of an environment, or of one of its states; an empty one if there is none."""
    owner = _owner(subject)
    return _part(owner[1], name, kind) if owner else kind()


def _part(entry: Entry, name: str, kind: type[Part]) -> Part:
    path = getattr(entry, name) or entry.toolbox
    found = _import(path, name) if isinstance(path, str) else path
    if not isinstance(found, kind):
        raise ValueError(f"'{path}' is no jaxvrp.{kind.__name__}; name one where you register the environment")
    return found


def _import(path: str, kind: str) -> Any:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise ValueError(f"{kind} {shown(path)}: {shown(module_name)} is no module; give 'package.module:attribute'")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise ValueError(
            f"cannot import {kind} {shown(path)}: no module {shown(error.name)}; run from the folder that holds it, or "
            "install it"
        ) from None
    if not hasattr(module, attribute):
        names = [key for key in vars(module) if not key.startswith("_")]
        raise ValueError(
            f"{kind} {shown(path)}: module {shown(module_name)} has no {shown(attribute)}; {nearest(attribute, names)}"
        )
    return getattr(module, attribute)
