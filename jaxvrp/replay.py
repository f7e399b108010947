"""The public face of `jaxvrp.show`: episodes as files and pages; `python -m jaxvrp.replay EPISODE.json` draws one."""

import sys

from jaxvrp.show import *  # noqa: F403
from jaxvrp.show.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
