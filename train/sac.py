"""SAC (Haarnoja et al. 2018, "Algorithms and applications"): maximum entropy, automatic temperature; inside `jit`.

python -m train.sac --config pcb_sac
"""

import functools

from train.commands import launch
from train.commands.entry import entry

main = functools.partial(launch.main, "sac")

if __name__ == "__main__":
    entry(main)
