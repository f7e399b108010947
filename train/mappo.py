"""MAPPO: an actor for each role, a critic that sees the global observation; trained end to end inside `jit`.

python -m train.mappo --config truck_drone_basic
"""

import functools

from train.commands import launch
from train.commands.entry import entry

main = functools.partial(launch.main, "mappo")

if __name__ == "__main__":
    entry(main)
