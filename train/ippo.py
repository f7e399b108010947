"""IPPO: as MAPPO, but the critic of a role sees only the observation of that role.

python -m train.ippo --config truck_drone_basic
"""

import functools

from train.running.command import command_line, launch

main = functools.partial(launch.main, "ippo")

if __name__ == "__main__":
    command_line.entry(main)
