"""The command `jaxvrp`: which program each of its words starts."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from jaxvrp_command import listing, names, versions
from jaxvrp_command.packages import ROOT, find_users_modules, use_ours
from jaxvrp_command.quick import choose, refuse

NAME = "jaxvrp"

INTERRUPTED = 130
"""Exit status after Ctrl-C: 128 and the number of the signal."""

HELP = ("-h", "--help")


@dataclasses.dataclass(frozen=True)
class Command:
    """A word behind `jaxvrp`; `module`, `programs` or `answer` says what it starts.

    Attributes:
        about: a sentence.
        module: its function `main` reads the words that follow.
        programs: by the next word, a module and a sentence.
        next_word: what the next word is the name of.
        answer: reads the words that follow, and needs no JAX to begin with.
    """

    about: str
    module: str = ""
    programs: Mapping[str, tuple[str, str]] | None = None
    next_word: str = ""
    answer: Callable[[Sequence[str]], None] | None = None


TRAINING = {name: (f"train.{name}", sentence) for name, (_, sentence) in names.ALGORITHMS.items()}
"""Module and sentence of each algorithm."""

PACKAGES = ("peers", "quality")
"""Benchmarks that are folders."""

BENCHMARKS = {
    name: (f"benchmarks.{name}.__main__" if name in PACKAGES else f"benchmarks.{name}", sentence)
    for name, sentence in names.BENCHMARKS.items()
}
"""Module and sentence of each benchmark."""


COMMANDS = {
    "play": Command(
        "play an episode of an environment and show it as a page, before anything is trained", "train.play"
    ),
    "train": Command("train a policy by one of the algorithms", programs=TRAINING, next_word="algorithm"),
    "evaluate": Command("measure a policy beside the baselines, on fixed instances or on yours", "train.evaluate"),
    "replay": Command("write the page that plays an episode of a policy", "train.replay"),
    "solve": Command("find the best plan for one problem in so many seconds", "train.solve"),
    "plan": Command("check a problem, solve it, and write the plan as a page with a sheet per vehicle", "train.plan"),
    "export": Command("write the policy of a run alone", "train.export"),
    "bench": Command("measure speed, or the quality of plans", programs=BENCHMARKS, next_word="benchmark"),
    "list": Command("list environments, algorithms, networks, configurations and policies", answer=listing.main),
    "version": Command("show versions and devices", answer=versions.main),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the words ask for.

    Raises:
        SystemExit: with 0; with 2 after a mistake, which is one line on stderr; with 130 after Ctrl-C.
    """
    try:
        _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:  # before a program has begun, which sees to it itself: while JAX is imported, say
        print("interrupted; nothing had begun", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def _modules(command: Command) -> dict[str, str]:
    """The modules that a command starts, by its next word; "" where there is none."""
    return {name: module for name, (module, _) in (command.programs or {"": (command.module, "")}).items()}


def program_names() -> dict[str, str]:
    """By module, what is typed to start a program: `jaxvrp train mappo` for `train.mappo`."""
    named = {}
    for name, command in COMMANDS.items():
        for inner, module in _modules(command).items():
            named[module.removesuffix(".__main__")] = f"{NAME} {name} {inner}".rstrip()
    return named


def _run(words: list[str]) -> None:
    if not words or words[0] in HELP:
        about = {name: command.about for name, command in COMMANDS.items()}
        print(_page(NAME, "Cooperative routing and placement: simulate, train, plan, look.", "COMMAND", about))
        return
    if words[0] == "--version":
        print(f"{NAME} {names.package_version()}")
        return
    command = COMMANDS[choose(words[0], COMMANDS, "command", NAME)]
    if command.answer:
        command.answer(words[1:])
    elif command.programs:
        _run_one_of(command.programs, command, words)
    else:
        _start(command.module, words[1:])


def _run_one_of(programs: Mapping[str, tuple[str, str]], command: Command, words: list[str]) -> None:
    """Start the program that the second word names, or list all of them."""
    group = f"{NAME} {words[0]}"
    if len(words) < 2 or words[1] in HELP:
        about = {name: sentence for name, (_, sentence) in programs.items()}
        print(_page(group, f"{command.about[0].upper()}{command.about[1:]}.", command.next_word.upper(), about))
        return
    _start(programs[choose(words[1], programs, command.next_word, group)][0], words[2:])


def _start(module: str, words: list[str]) -> None:
    """Run a program; ends the process."""
    if module.startswith("benchmarks.") and not (ROOT / "benchmarks").is_dir():
        refuse("jaxvrp bench needs a clone of the repository, which holds the folder benchmarks; the package does not")
    use_ours()
    find_users_modules()
    from jaxvrp.io.command_line import PROGRAM_NAMES

    entry = importlib.import_module("train.running.command.command_line").entry
    program = importlib.import_module(module)
    PROGRAM_NAMES.set(program_names())
    entry(functools.partial(program.main, words))


def _page(program: str, about: str, what: str, choices: dict[str, str]) -> str:
    """The page of `--help` of a command that has others behind it."""
    width = min(shutil.get_terminal_size().columns, listing.WIDEST)
    lines = [f"usage: {program} {what} [OPTIONS]", "", *textwrap.wrap(about, width), ""]
    lines += listing.aligned([*choices.items()], width)
    lines += ["", f"{program} {what} --help lists the options of each."]
    if program == NAME:
        lines.append(f"{NAME} --version")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
