"""`python -m jaxvrp` is the command `jaxvrp`; see `jaxvrp_command`. Nothing imports this module."""

from jaxvrp_command.main import main

if __name__ == "__main__":
    main()
