"""What a resumed run must have in common with the run that wrote its checkpoint, and what may change."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from typing import Any

from jaxvrp.io.command_line import UserError
from jaxvrp.io.messages import cut
from jaxvrp.policies.folder import without_retired
from train.settings.config import RunConfig, nearest_divisor
from train.settings.config_file import flat
from train.settings.keys import CHANGEABLE, as_typed

Values = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Change:
    """What a resume has changed: the update of its checkpoint, and values by key, of some of `CHANGEABLE`."""

    update: int
    before: Values
    after: Values


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """What `config.yaml` of a run folder says: the resolved configuration as it is now, and the changes by resumes."""

    config: RunConfig
    algorithm: str
    changes: tuple[Change, ...] = ()

    @property
    def values(self) -> Values:
        """Algorithm and configuration, as plain values that JSON and YAML keep as they are."""
        return json.loads(json.dumps({"algorithm": self.algorithm, **dataclasses.asdict(self.config)}))


def check_same(run: RecordedRun, saved: Values, place: pathlib.Path) -> None:
    """Check that a checkpoint was written by the run that `config.yaml` describes, now or before a resume changed it.

    `saved` is what the checkpoint holds, see `RecordedRun.values`; `place` is the file, for the message.
    """
    defaults = RecordedRun(type(run.config)(), run.algorithm).values  # of keys that are newer than the checkpoint
    wanted = flat({**defaults, **without_retired(saved)})
    values = run.values
    versions = [values]
    for change in reversed(run.changes):
        values = {**values, **change.before}
        versions.append(values)
    differing = min((_differing(flat(values), wanted) for values in versions), key=len)
    if not differing:
        return
    words = [
        f"{cut(name, 80)} is {cut(value)}, in the checkpoint {cut(saved_value)}"
        for name, (value, saved_value) in differing.items()
    ]
    listed = ", ".join(words)
    changeable = [f"--{name} {value}" for name, (value, _) in differing.items() if name in CHANGEABLE]
    offer = f" (--resume takes {' '.join(changeable)})" if changeable else ""
    raise UserError(f"{place} is not the configuration of the checkpoint: {listed}; undo that in {place.name}{offer}")


def resumed(run: RecordedRun, given: Values, update: int) -> RecordedRun:
    """The run that goes on from the checkpoint of an update with new values of some of `CHANGEABLE`."""
    after = {name: value for name, value in given.items() if value != getattr(run.config, name)}
    config = dataclasses.replace(run.config, **after)
    if update % config.log_interval:
        raise UserError(
            f"log_interval is {config.log_interval}, which does not divide the {update} updates that are done; "
            f"take {nearest_divisor(math.gcd(update, run.config.num_updates), config.log_interval)}"
        )
    if "total_steps" not in given and config.num_updates != run.config.num_updates:
        raise UserError(
            f"log_interval is {config.log_interval}, with which the run has {config.num_updates} updates, not "
            f"{run.config.num_updates}; leave it out, or give total_steps as well"
        )
    if config.num_updates < update:
        done = update * config.steps_per_update
        raise UserError(f"total_steps is {config.total_steps}, but {done} steps are done; take {done} or more")
    if not after:
        return run
    before, values = run.values, RecordedRun(config, run.algorithm).values
    change = Change(update, {name: before[name] for name in after}, {name: values[name] for name in after})
    return RecordedRun(config, run.algorithm, (*run.changes, change))


def logged_updates(run: RecordedRun, update: int) -> list[int]:
    """The updates that a run has written a record of, up to that of a checkpoint; ascending."""
    interval, end, stretches = run.config.log_interval, update, []
    for change in reversed(run.changes):
        start = min(change.update, end)
        stretches.append(range(start + interval, end + 1, interval))
        interval, end = change.before.get("log_interval", interval), start
    stretches.append(range(interval, end + 1, interval))
    return [number for stretch in reversed(stretches) for number in stretch]


def changes_of(recorded: Any, values: Values) -> tuple[Change, ...]:
    """The changes that `config.yaml` lists; a ValueError, if they do not lead to the present `values`."""
    try:
        changes = tuple(Change(**entry) for entry in recorded)
        present = {name: values[name] for name in CHANGEABLE if name in values}
        for change in reversed(changes):
            is_known = change.before.keys() == change.after.keys() <= set(CHANGEABLE)
            if not is_known or present != {**present, **change.after}:
                raise ValueError
            present |= change.before
    except (TypeError, AttributeError, ValueError):
        raise ValueError("changes is not what resumes have changed") from None
    return changes


def _differing(values: Values, wanted: Values) -> dict[str, tuple[str, str]]:
    """Both values, in words, of the keys whose values differ."""

    def in_words(values: Values, name: str) -> str:
        return as_typed(values[name]) if name in values else "not there"

    return {
        name: (in_words(values, name), in_words(wanted, name))
        for name in {**wanted, **values}
        if (name in values, values.get(name)) != (name in wanted, wanted.get(name))
    }
