"""The environments as other suites expect them; see `docs/adapters.md` for examples.

Each module is imported by its name, and needs an optional extra.
"""
