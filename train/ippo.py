"""IPPO: as MAPPO, but the critic of a role sees only the observation of that role.

python -m train.ippo --config truck_drone_basic
"""

import functools

from train.commands import launch
from train.commands.entry import entry

main = functools.partial(launch.main, "ippo")

if __name__ == "__main__":
    entry(main)
