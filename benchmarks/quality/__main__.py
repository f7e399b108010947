"""`python -m benchmarks.quality`; see the package."""

from benchmarks.quality.baselines import main
from train.running import command_line

if __name__ == "__main__":
    command_line.entry(main)
