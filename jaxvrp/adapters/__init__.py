"""The environments as other suites expect them; see `docs/adapters.md` for examples.

Each module is imported by its name, and needs an optional extra. In all of them

- a malformed action, or a problem of another environment, raises a ValueError or TypeError: one line that names the
  agent or the option;
- stepping, rendering, or asking for the state before the first reset raises a RuntimeError.
"""
