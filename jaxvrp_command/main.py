"""The command `jaxvrp`: which program each of its words starts."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence

from jaxvrp_command import answers, names
from jaxvrp_command.answers import choose, refuse
from jaxvrp_command.packages import ROOT, alone, find_users_modules, package_version, use_ours

NAME = "jaxvrp"

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
BENCHMARKS = {name: (f"benchmarks.{name}", sentence) for name, sentence in names.BENCHMARKS.items()}
BENCHMARKS |= {
    name: (f"benchmarks.{name}.__main__", names.BENCHMARKS[name]) for name in ("compiled", "peers", "quality")
}
RECORDS = {name: (f"benchmarks.records.{name}", sentence) for name, sentence in names.RECORDS.items()}

COMMANDS = {
    "play": Command(
        "play an episode of an environment and show it as a page, before anything is trained", "train.play"
    ),
    "train": Command("train a policy by one of the algorithms", programs=TRAINING, next_word="algorithm"),
    "evaluate": Command("measure a policy beside the baselines, on fixed instances or on yours", "train.evaluate"),
    "replay": Command("write the page that plays an episode of a policy", "train.replay"),
    "solve": Command("find the best plan for one problem in so many seconds", "train.solve"),
    "plan": Command("check a problem, solve it, and write the plan as a page with a sheet per vehicle", "train.plan"),
    "plot": Command("draw the learning curves of several runs in one figure", "train.plot"),
    "sweep": Command("train many runs of a configuration with other keys, chosen by Optuna", "train.sweep"),
    "export": Command("write the policy of a run alone, as a folder or one file for JAX alone", "train.export"),
    "bench": Command(
        "compare players on frozen sets of problems, or measure speed",
        programs=RECORDS | BENCHMARKS,
        next_word="benchmark",
    ),
    "list": Command("list environments, algorithms, networks, configurations and policies", answer=answers.list_names),
    "version": Command("show versions and devices", answer=answers.show_versions),
}


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
    named = {}
    for name, command in COMMANDS.items():
        for inner, (module, _) in (command.programs or {"": (command.module, "")}).items():
            named[module.removesuffix(".__main__")] = f"{NAME} {name} {inner}".rstrip()
    return named


def _run(words: list[str]) -> None:
    if not words or words[0] in HELP:
        about = {name: command.about for name, command in COMMANDS.items()}
        print(_page(NAME, "Cooperative routing and placement: simulate, train, plan, look.", "COMMAND", about))
        return
    if words[0] == "--version":
        print(f"{NAME} {package_version()}")
        return
    command = COMMANDS[choose(words[0], COMMANDS, "command", NAME)]
    if command.answer:
        command.answer(words[1:])
    elif not command.programs:
        _start(command.module, words[1:])
    elif len(words) < 2 or words[1] in HELP:
        about = {name: sentence for name, (_, sentence) in command.programs.items()}
        sentence = f"{command.about[0].upper()}{command.about[1:]}."
        print(_page(f"{NAME} {words[0]}", sentence, command.next_word.upper(), about))
    else:
        chosen = choose(words[1], command.programs, command.next_word, f"{NAME} {words[0]}")
        _start(command.programs[chosen][0], words[2:])


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
    width = min(shutil.get_terminal_size().columns, answers.WIDEST)
    lines = [f"usage: {program} {what} [OPTIONS]", "", *textwrap.wrap(about, width), ""]
    lines += answers.aligned([*choices.items()], width)
    lines += ["", f"{program} {what} --help lists the options of each."]
    if program == NAME:
        lines.append(f"{NAME} --version")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
