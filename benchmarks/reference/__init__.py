"""Plain NumPy references, one file an environment, found by its name."""
