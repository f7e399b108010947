"""Units that files are in."""

LENGTHS = {"km": 1.0, "m": 0.001, "mi": 1.609344}
"""Kilometres of a unit."""

TIMES = {"min": 1.0, "s": 1 / 60, "h": 60.0}
"""Minutes of a unit."""

SPEEDS = {"km/h": 1.0, "m/s": 3.6, "mph": 1.609344}
"""km/h of a unit."""

SECONDS, METRES = 60.0, 1000.0
"""Of a minute, and of a kilometre."""
