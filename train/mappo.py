"""MAPPO: an actor for each role, a critic that sees the global observation; trained end to end inside `jit`.

python -m train.mappo --config truck_drone_basic
"""

from train.commands.entry import entry, training

main = training("mappo")

if __name__ == "__main__":
    entry(main)
