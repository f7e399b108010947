"""What all benchmarks share: seconds and their spread, the machine, and what an environment is measured as."""
