"""The command `jaxvrp`: which program each of its words starts."""

from __future__ import annotations

import functools
import importlib
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence

from jaxvrp_command import answers, names
from jaxvrp_command.answers import choose, refuse
from jaxvrp_command.packages import ROOT, alone, find_users_modules, package_version, use_ours

NAME, HELP = "jaxvrp", ("-h", "--help")

LEARNERS = {name: f"train.{name}" for name, *_ in names.algorithms()}
PROGRAMS = {name: module for name, module in names.programs("train").items() if name not in LEARNERS}
BENCHMARKS = names.programs("benchmarks/records") | names.programs("benchmarks")

GROUPS = {
    "train": ("algorithm", LEARNERS, "Train a policy by one of the algorithms."),
    "bench": ("benchmark", BENCHMARKS, "Compare players on frozen sets of problems, or measure speed."),
}
"""By the first word: what the second names, the modules of the second, and a sentence."""

ANSWERS = {
    "list": (answers.list_names, "List environments, algorithms, networks, configurations and policies."),
    "version": (answers.show_versions, "Show the versions of jaxvrp, Python, jax and jaxlib, and the devices."),
}
"""Functions that need no JAX to begin with, and a sentence."""

FIRST = ("play", "train", "evaluate", "replay", "solve", "plan")
"""The words that stand first on the page of `--help`; the others follow by the alphabet."""


def commands() -> dict[str, str]:
    """The first words, with a sentence each."""
    found = {name: about for name, (*_, about) in (GROUPS | ANSWERS).items()}
    found |= {name: names.sentence(module) for name, module in PROGRAMS.items()}
    return {name: found[name] for name in (*FIRST, *sorted(found.keys() - set(FIRST)))}


def main(argv: Sequence[str] | None = None) -> None:
    """Start what the words name; exits with 0, with 2 after a mistake (one line on stderr), with 130 after Ctrl-C."""
    streams = alone("jaxvrp.io.streams")
    streams.protect()
    try:
        _run(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as end:
        raise SystemExit(streams.finish(end.code)) from None
    except KeyboardInterrupt:  # before a program has begun, which sees to it itself: while JAX is imported, say
        print("interrupted; nothing had begun", file=sys.stderr)
        raise SystemExit(130) from None  # 128 and the number of the signal
    if status := streams.finish(0):
        raise SystemExit(status)


def program_names() -> dict[str, str]:
    """By module, what is typed to start a program: `jaxvrp train mappo` for `train.mappo`."""
    typed = {module: f"{NAME} {name}" for name, module in PROGRAMS.items()}
    for group, (_, modules, _) in GROUPS.items():
        typed |= {module.removesuffix(".__main__"): f"{NAME} {group} {name}" for name, module in modules.items()}
    return typed


def _run(words: list[str]) -> None:
    if not words or words[0] in HELP:
        about = "Cooperative routing and placement: simulate, train, plan, look."
        print(_page(NAME, about, "COMMAND", commands()), f"{NAME} --version", sep="\n")
        return
    if words[0] == "--version":
        print(f"{NAME} {package_version()}")
        return
    name = choose(words[0], commands(), "command", NAME)
    if name in ANSWERS:
        answer, about = ANSWERS[name]
        answer(words[1:], about)
    elif name in PROGRAMS:
        _start(PROGRAMS[name], words[1:])
    else:
        _run_of_group(name, words[1:])


def _run_of_group(group: str, words: list[str]) -> None:
    what, modules, about = GROUPS[group]
    if group == "bench" and not (ROOT / "benchmarks").is_dir():
        refuse("jaxvrp bench needs a clone of the repository, which holds the folder benchmarks; the package does not")
    if words and words[0] not in HELP:
        _start(modules[choose(words[0], modules, what, f"{NAME} {group}")], words[1:])
        return
    sentences = {name: names.sentence(module) for name, module in modules.items()}
    print(_page(f"{NAME} {group}", about, what.upper(), sentences))


def _start(module: str, words: list[str]) -> None:
    """Run a program; ends the process."""
    use_ours()
    find_users_modules()
    from jaxvrp.io.command_line import PROGRAM_NAMES

    entry = importlib.import_module("train.commands.entry").entry
    program = importlib.import_module(module)
    PROGRAM_NAMES.set(program_names())
    entry(functools.partial(program.main, words))


def _page(program: str, about: str, what: str, choices: Mapping[str, str]) -> str:
    """The page of `--help` of a command that has others behind it."""
    width = min(shutil.get_terminal_size().columns, answers.WIDEST)
    lines = [f"usage: {program} {what} [OPTIONS]", "", *textwrap.wrap(about, width), ""]
    lines += [*answers.aligned([*choices.items()], width), "", f"{program} {what} --help lists the options of each."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
