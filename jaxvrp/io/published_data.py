"""The folder of published instances, which are not part of this project."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "JAXVRP_DATA"


def data_folder() -> Path:
    """The folder that the environment variable `JAXVRP_DATA` names, else `../shared/data`; it need not exist."""
    return Path(os.environ.get(VARIABLE, "../shared/data"))
