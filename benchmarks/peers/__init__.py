"""Our simulation speed beside that of other suites; `python -m benchmarks.peers`."""
