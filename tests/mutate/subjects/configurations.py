"""Command lines and YAML files of the learners, damaged: refused before anything is made, or taken exactly as typed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import yaml

from tests.mutate.mutators import NUMBERS, WORDS, mutate_text, pick
from tests.mutate.trial import NOTHING, Case, Finding, Subject, Tally
from tests.mutate.verdict import Ended, command
from train.algorithms import ALGORITHMS
from train.commands import launch
from train.run.folder import CONFIG, read_run
from train.settings.config_file import SHIPPED
from train.settings.keys import LAUNCH, MAPPINGS

TINY = {"num_envs": "4", "rollout_length": "4", "num_devices": "1", "hidden_sizes": "[8]", "total_steps": "64"}
ON_POLICY = {**TINY, "num_minibatches": "2", "num_epochs": "1"}
OFF_POLICY = {**TINY, "batch_size": "16", "gradient_steps": "2", "buffer_size": "400", "random_steps": "16"}
TRUCK = {"env.name": "truck_drone", "env.num_customers": "2", "env.num_route_nodes": "3", "env.max_steps": "12"}
DARP = {"env.name": "darp", "env.num_nodes": "4", "env.num_agents": "2", "env.vehicle_speed": "25.0"}
PCB = {"env.name": "pcb", "env.num_boards": "2", "env.max_parts": "2", "env.rays": "4", "env.mode": "simultaneous"}

BASES: tuple[tuple[str, dict[str, str]], ...] = (
    ("mappo", {**ON_POLICY, "env.name": "toy_of_the_tests"}),
    ("mappo", {**ON_POLICY, **TRUCK, "network": "gru", "recurrent_size": "8", "chunk_length": "4"}),
    ("ippo", {**ON_POLICY, **DARP, "network": "attention", "eval_env.num_nodes": "6"}),
    ("td3", {**OFF_POLICY, "env.name": "line_walk_of_the_tests", "policy_delay": "2", "tau": "0.005"}),
    ("sac", {**OFF_POLICY, "env.name": "line_walk_of_the_tests", "actor_lr": "3e-4"}),
    ("sac", {**OFF_POLICY, **PCB}),
)
"""Algorithms, with keys as they are typed."""

MORE = {"seed": "3", "gamma": "0.99", "eval_episodes": "4", "eval_seed": "7", "num_seeds": "1", "log_interval": "1"}
MORE |= {"save_interval": "2", "eval_interval": "2", "activation": "tanh", "critic_lr": "1e-3"}
"""Keys that may be there as well."""

ENDLESS = ("total_steps", "save_interval", "eval_interval", "log_interval", "random_steps", "target_exploration_steps")
ENDLESS += ("num_epochs", "policy_delay", "gradient_steps", "randomize_steps")
"""Keys that may be as large as one likes: a run takes as long, but nothing is as large as they are."""

REASONABLE = 10**8

Asked = dict[str, yaml.Node]
"""What was typed, by key."""


class Duplicate(Exception):
    """A key is there twice."""


class Configurations(Subject):
    """See the module."""

    def attempt(self, case: Case) -> Tally:
        """One command line, with or without a file, with some damage."""
        random = case.random()
        algorithm, base = pick(random, BASES)
        keys = base | dict(_some(MORE, random))
        in_file = dict(_some(keys, random)) if random.random() < 0.6 else {}
        text = _as_yaml(in_file)
        words = [word for key, value in keys.items() if key not in in_file for word in (f"--{key}", value)]
        if random.random() < 0.1:
            algorithm, text = _shipped(random)
            words = []
        if (in_file or text) and random.random() < 0.6:
            text = mutate_text(random, text)
        else:
            words = _damaged_words(words, random)
        if text:
            Path("run.yaml").write_bytes(text)
            words = ["--config", "run.yaml", *words]
        _judge(algorithm, [*words, "--run_dir", "run"], text)
        return NOTHING


def _some(keys: dict[str, str], random: np.random.Generator) -> Iterator[tuple[str, str]]:
    share = random.random()
    return ((key, value) for key, value in keys.items() if random.random() < share)


def _as_yaml(keys: dict[str, str]) -> bytes:
    lines = [f"{key}: {value}" for key, value in keys.items() if "." not in key]
    for mapping in MAPPINGS:
        inner = {key.partition(".")[2]: value for key, value in keys.items() if key.startswith(f"{mapping}.")}
        lines += [f"{mapping}:", *(f"  {key}: {value}" for key, value in inner.items())] if inner else []
    return "".join(f"{line}\n" for line in lines).encode()


def _shipped(random: np.random.Generator) -> tuple[str, bytes]:
    """A file that comes with the learners, and whose it is; boards are kept few."""
    path = pick(random, sorted(SHIPPED.glob("*.yaml")))
    name = path.stem.rpartition("_")[2]
    return name if name in ALGORITHMS else "mappo", path.read_bytes().replace(b"num_boards: 256", b"num_boards: 2")


def _damaged_words(words: list[str], random: np.random.Generator) -> list[str]:
    """One to three words are changed, lost, doubled, swapped or joined by `=`."""
    words = list(words)
    for _ in range(int(random.integers(1, 4))):
        place = int(random.integers(len(words) + 1))
        how = random.random()
        if how < 0.5 and place < len(words):
            choices = NUMBERS + WORDS
            is_key = words[place].startswith("--")
            place = place + 1 if is_key and place + 1 < len(words) and random.random() < 0.8 else place
            words[place] = pick(random, choices)
        elif how < 0.6:
            del words[place : place + 1]
        elif how < 0.75 and len(words) > 1:
            start = 2 * int(random.integers(len(words) // 2))
            words += words[start : start + 2]
        elif how < 0.85 and place < len(words):
            letters = list(words[place])
            if letters:
                letters[int(random.integers(len(letters)))] = chr(int(random.integers(33, 127)))
            words[place] = "".join(letters)
        elif how < 0.95:
            words.insert(place, pick(random, NUMBERS + WORDS))
        elif place + 1 < len(words):
            words[place : place + 2] = ["=".join(words[place : place + 2])]
    # No argument of a process can hold these.
    return [word.replace("\0", "") for word in words]


# --- what was made of it --------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Taken:
    """What a command line came to: the configuration and learner that would have been trained."""

    learner: Any = None
    folder: Path | None = None


@contextlib.contextmanager
def _not_trained(taken: Taken) -> Iterator[None]:
    """Instead of training, what would have been trained is kept."""

    def keep(learner: Any, folder: Path, *rest: Any, **more: Any) -> None:
        del rest, more
        taken.learner, taken.folder = learner, folder

    beginning = launch.beginning

    def begin(learner: Any, path: Any, **options: Any) -> Any:
        is_earlier_stage = isinstance(path, Path)  # which was not trained either
        return None if is_earlier_stage else beginning(learner, path, **options)

    with mock.patch.object(launch.loop, "run", keep), mock.patch.object(launch, "beginning", begin):
        yield


def _judge(algorithm: str, words: list[str], text: bytes) -> None:
    taken, before = Taken(), sorted(os.listdir())
    main = importlib.import_module(f"train.{algorithm}").main
    typed = " ".join(word[:200] for word in words)
    tried = f"python -m train.{algorithm} {typed}\n\n{text[:5000].decode(errors='replace')}"
    try:
        with _not_trained(taken):
            ended = command(main, words)
        if ended.status != 0 or taken.learner is None:
            _check_nothing_is_left(ended, before)
        else:
            _check_taken(algorithm, taken, words, text)
    except Finding as finding:
        raise Finding(finding.kind, f"{tried}\n{finding.details}") from finding


def _check_nothing_is_left(ended: Ended, before: list[str]) -> None:
    left = sorted(set(os.listdir()) - set(before))
    if left:
        raise Finding("something is left behind by a command line that is refused", f"{left}\n{ended.stderr}")


def _check_taken(algorithm: str, taken: Taken, words: list[str], text: bytes) -> None:
    """Every key has the value that is typed for it, all others their defaults; the run folder says the same."""
    config = taken.learner.config
    try:
        asked = {**_asked_in_file(text), **_asked_in_words(words)}
    except Duplicate as twice:
        raise Finding("a key is given twice, and one of the two counts", str(twice)) from None
    defaults = ALGORITHMS[algorithm].config_class()
    # Those that a stage changes are resolved for each, and so are the stages.
    staged = {"stages", *(name.partition(".")[0] for stage in getattr(config, "stages", ()) for name in stage)}
    for field in (field for field in dataclasses.fields(config) if field.name not in staged):
        value = getattr(config, field.name)
        if field.name in MAPPINGS:
            _check_mapping(field.name, value, asked)
        elif field.name in asked:
            _check_key(field.name, asked[field.name], value)
        elif value != getattr(defaults, field.name):
            raise Finding("a key that nobody gave is not at its default", f"{field.name}: {value!r}")
    assert taken.folder is not None
    written = read_run(taken.folder).config
    if written != config:
        raise Finding(f"{CONFIG} of the run folder says something else", f"{written}\n{config}")
    _check_memory(taken)


def _check_mapping(name: str, values: dict[str, Any], asked: Asked) -> None:
    for key, node in asked.items():
        mapping, _, inner = key.partition(".")
        if mapping == name and inner:
            if inner not in values:
                raise Finding("a parameter that was given is gone", key)
            _check_key(key, node, values[inner])


def _check_key(key: str, node: yaml.Node, value: Any) -> None:
    if not says(node, value):
        raise Finding("a value is taken as another", f"{key}: {str(node.value)[:300]!r} became {value!r:.300}")
    for number in value if isinstance(value, list | tuple) else [value]:
        if isinstance(number, float) and math.isfinite(number) and abs(number) > np.finfo(np.float32).max:
            raise Finding("a number that float32 cannot hold is taken", f"{key}: {number!r}")
        if type(number) is int and abs(number) > REASONABLE and "seed" not in key and key not in ENDLESS:
            raise Finding("a size is taken that no machine holds", f"{key}: {number!r:.100}")


def _check_memory(taken: Taken) -> None:
    """A learner that would not fit is refused before its folder is made."""
    sizes = [value for value in vars(taken.learner.config).values() if type(value) is int]
    if max(sizes) < REASONABLE // 100:
        return
    shapes = jax.eval_shape(taken.learner.init, jax.random.key(0))
    needed = sum(math.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(shapes))
    if needed > 2**36:
        raise Finding("a learner is taken that no machine holds", f"{needed / 2**30:.3g} GiB")


# --- what was typed, read strictly ----------------------------------------------------------------------------------


def _asked_in_file(text: bytes) -> Asked:
    root = yaml.compose(text.decode("utf-8-sig")) if text else None
    if not isinstance(root, yaml.MappingNode):
        return {}
    asked: Asked = {}
    for name, node in _entries(root):
        if name in MAPPINGS and isinstance(node, yaml.MappingNode):
            asked |= {f"{name}.{inner}": value for inner, value in _entries(node)}
        elif name not in LAUNCH:
            asked[name] = node
    return asked


def _entries(node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    seen = set()
    for key, value in node.value:
        if str(key.value) in seen:
            raise Duplicate(str(key.value))
        seen.add(str(key.value))
        yield str(key.value), value


def _asked_in_words(words: list[str]) -> Asked:
    asked: Asked = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            continue
        key, has_value, value = word[2:].partition("=")
        value = value if has_value else next(rest, "")
        if key in asked:
            raise Duplicate(f"--{key}")
        asked[key] = _node(value)
    return {key: node for key, node in asked.items() if key not in LAUNCH}


def _node(text: str) -> yaml.Node:
    try:
        node = yaml.compose(text)
    except yaml.YAMLError:
        node = None
    return node if node is not None else yaml.ScalarNode("tag:yaml.org,2002:str", text)


def says(node: yaml.Node, value: Any) -> bool:
    """Whether what is typed says `value` to somebody who knows decimal numbers, and no other."""
    if isinstance(value, dict):
        return isinstance(node, yaml.MappingNode) and len(node.value) == len(value)
    if isinstance(value, list | tuple):
        is_list = isinstance(node, yaml.SequenceNode) and len(node.value) == len(value)
        return is_list and all(says(inner, item) for inner, item in zip(node.value, value, strict=True))
    return isinstance(node, yaml.ScalarNode) and _word_says(node.value, value)


def _word_says(word: str, value: Any) -> bool:
    if value is None:
        return word.lower() in ("null", "~", "", "none")
    if isinstance(value, bool):
        return word.lower() in (("true", "yes", "on") if value else ("false", "no", "off"))
    return _says_number(word, value) if isinstance(value, int | float) else word == value


def _says_number(word: str, value: float) -> bool:
    word = word.strip().lower().replace(".inf", "inf").replace(".nan", "nan")
    if word.startswith("0x"):
        return int(word, 16) == value
    if word.replace("_", "").isdecimal() and isinstance(value, int):
        return word.replace("_", "").lstrip("0") == str(value).lstrip("0")
    try:
        return float(word) == value
    except ValueError:
        return False
