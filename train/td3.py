"""TD3 (Fujimoto et al. 2018): twin critics, smoothed target actions, delayed actors; end to end inside `jit`.

python -m train.td3 --config pcb_td3
"""

from train.commands.entry import entry, training

main = training("td3")

if __name__ == "__main__":
    entry(main)
