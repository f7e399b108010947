"""Our simulation speed beside that of other suites, and our learners beside JaxMARL's; `python -m benchmarks.peers`."""
