"""MAPPO: an actor for each role, a critic that sees the global observation; trained end to end inside `jit`.

python -m train.mappo --config truck_drone_basic
"""

import functools

from train.running.command import command_line, launch

main = functools.partial(launch.main, "mappo")

if __name__ == "__main__":
    command_line.entry(main)
