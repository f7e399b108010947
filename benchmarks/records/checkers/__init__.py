"""Checkers of plans for published problems, a file each, that need NumPy alone: run them without this package, too."""
