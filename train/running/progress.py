"""The progress bar of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from jaxvrp.toolbox import Headline


class Progress:
    """A progress bar over environment steps: return, what the headlines name, speed, time left."""

    def __init__(self, total_steps: int, done_steps: int, headlines: Sequence[Headline], *, enabled: bool):
        shown = {headline.progress: f"env/{headline.metric}" for headline in headlines if headline.progress}
        self._names = {"return": "episode/return", **shown}
        self._bar = tqdm(
            total=total_steps,
            initial=done_steps,
            disable=not enabled,
            unit="step",
            unit_scale=True,
            dynamic_ncols=True,
            bar_format="{l_bar}{bar:20}| {n_fmt}/{total_fmt} steps, {rate_fmt}, {remaining} left{postfix}",
        )
        self._bar.set_postfix_str("compiling")

    def advance(self, steps: int, record: dict[str, Any]) -> None:
        """Show a record."""
        shown = {short: record.get(name) for short, name in self._names.items()}
        text = ", ".join(f"{k} {np.mean(v):.2f}" for k, v in shown.items() if v is not None)
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(steps)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
