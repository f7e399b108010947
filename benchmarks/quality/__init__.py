"""How good plans are, on fixed instances: one file an environment, found by its name, and a table for all others."""
