"""Checkers of plans for published problems, a file each, that need NumPy alone; the folder runs by itself, too."""
