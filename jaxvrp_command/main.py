"""The command `jaxvrp`: which program each of its words starts."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jaxvrp
from jaxvrp.io.command_line import PROGRAM_NAMES, Interrupted, UserError, importing, run_command
from jaxvrp_command.names import ROOT, algorithms, aligned, checked, programs, sentence, width

NAME, HELP = "jaxvrp", ("-h", "--help")

COMMON_NAMES = ("train", "benchmarks")
"""Packages of ours that are called as a user's own file may be."""


class Group(NamedTuple):
    """What to call the word behind a first word, the modules that it starts, by name, and a sentence."""

    subject: str
    programs: Mapping[str, str]
    about: str


LEARNERS = {name: f"train.{name}" for name, *_ in algorithms()}
BENCHMARKS = programs("benchmarks/records") | programs("benchmarks")
GROUPS = {
    "train": Group("algorithm", LEARNERS, "Train a policy by one of the algorithms."),
    "bench": Group("benchmark", BENCHMARKS, "Compare players on frozen sets of problems, or measure speed."),
}
"""By the first word."""

QUICK = {"list": "jaxvrp_command.list", "version": "jaxvrp_command.version"}
"""Modules of programs that need no JAX to begin with."""

PROGRAMS = QUICK | {name: module for name, module in programs("train").items() if name not in LEARNERS}
"""Modules by the only word that starts them."""

FIRST = ("play", "train", "evaluate", "replay", "solve", "plan")
"""The words that stand first on the page of `--help`; the others follow by the alphabet."""


def commands() -> dict[str, str]:
    """The first words, with a sentence each."""
    found = {name: group.about for name, group in GROUPS.items()}
    found |= {name: sentence(module) for name, module in PROGRAMS.items()}
    return {name: found[name] for name in (*FIRST, *sorted(found.keys() - set(FIRST)))}


def program_names() -> dict[str, str]:
    """By module, what is typed to start a program: `jaxvrp train mappo` for `train.mappo`."""
    typed = {module: f"{NAME} {name}" for name, module in PROGRAMS.items()}
    for word, group in GROUPS.items():
        typed |= {module.removesuffix(".__main__"): f"{NAME} {word} {name}" for name, module in group.programs.items()}
    return typed


def main(argv: Sequence[str] | None = None) -> None:
    """Start what the words name; exits with 2 after a mistake (one line on stderr), with 130 after Ctrl-C."""
    before = PROGRAM_NAMES.set(program_names())
    try:
        status = run_command(lambda: _run(sys.argv[1:] if argv is None else list(argv)))
    finally:
        PROGRAM_NAMES.reset(before)
    if status:
        raise SystemExit(status)


def _run(words: list[str]) -> None:
    try:
        if not words or words[0] in HELP:
            _show_page(NAME, "Cooperative routing and placement: simulate, train, plan, look.", "COMMAND", commands())
            print(f"{NAME} --version")
        elif words[0] == "--version":
            print(f"{NAME} {jaxvrp.__version__}")
        elif checked(words[0], commands(), "command", NAME) in PROGRAMS:
            _start(PROGRAMS[words[0]], words[1:])
        else:
            _run_of_group(words[0], words[1:])
    except KeyboardInterrupt:  # before a program has begun, which sees to it itself: while JAX is imported, say
        raise Interrupted("interrupted; nothing had begun") from None


def _run_of_group(word: str, words: list[str]) -> None:
    if word == "bench" and not (ROOT / "benchmarks").is_dir():
        raise UserError(
            "jaxvrp bench needs a clone of the repository, which holds the folder benchmarks; the package does not"
        )
    program, (subject, modules, about) = f"{NAME} {word}", GROUPS[word]
    if words and words[0] not in HELP:
        _start(modules[checked(words[0], modules, subject, program)], words[1:])
    else:
        _show_page(program, about, subject.upper(), {name: sentence(module) for name, module in modules.items()})


def _show_page(program: str, about: str, metavar: str, choices: Mapping[str, str]) -> None:
    """The page of `--help` of a command that has others behind it."""
    print(f"usage: {program} {metavar} [OPTIONS]", "", *textwrap.wrap(about, width()), "", sep="\n")
    print(*aligned([*choices.items()], width()), "", f"{program} {metavar} --help lists the options of each.", sep="\n")


def _start(module: str, words: list[str]) -> None:
    """Run a program; one that needs JAX ends the process."""
    if module in QUICK.values():
        importlib.import_module(module).main(words)
        return
    import_packages()
    find_users_modules()
    with importing():
        entry = importlib.import_module("train.commands.entry").entry
        program = importlib.import_module(module)
    entry(functools.partial(program.main, words), searches=getattr(program, "SEARCHES", False))


def import_packages() -> None:
    """Import the packages with `COMMON_NAMES` from beside this one.

    A file `train.py` in the folder where somebody starts, or in one that `PYTHONPATH` names, would go first. Modules
    in a package are found by way of the package, so that it is enough to import the packages themselves.
    """
    sys.path.insert(0, str(ROOT))
    for name in COMMON_NAMES:
        if (ROOT / name).is_dir():  # benchmarks are in a clone alone
            importlib.import_module(name)
    sys.path.remove(str(ROOT))


def find_users_modules() -> None:
    """Let dotted paths lead to modules in the folder where the user starts; it is the last that is looked in.

    `python -m` has it first, a script not at all. Python's option `-P` leaves it out, and is heeded.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed
        return
    if not sys.flags.safe_path and here not in sys.path and "" not in sys.path:
        sys.path.append(here)


if __name__ == "__main__":
    main()
