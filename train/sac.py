"""SAC (Haarnoja et al. 2018, "Algorithms and applications"): maximum entropy, automatic temperature; inside `jit`.

python -m train.sac --config pcb_sac
"""

from train.commands.entry import entry, training

main = training("sac")

if __name__ == "__main__":
    entry(main)
