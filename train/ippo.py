"""IPPO: as MAPPO, but the critic of a role sees only the observation of that role.

python -m train.ippo --config truck_drone_basic
"""

from train.commands.entry import entry, training

main = training("ippo")

if __name__ == "__main__":
    entry(main)
