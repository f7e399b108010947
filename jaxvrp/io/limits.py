"""How large numbers may be: everything is computed in `float32` and indexed with `int32`."""

LARGEST_WHOLE = 2**31 - 1
"""Whole numbers are at most this in size, where no other bound is given, because sizes become indices."""

MOST_VEHICLES = 1_000
"""Of a fleet in a file."""

LEAST, LARGEST = 1e-12, 1e12
"""Numbers are at most `LARGEST` in size, and positive ones are at least `LEAST`. `float32` ends at 3.4e38 and
flushes numbers below 1.2e-38 to 0; within these bounds squares, sums and quotients stay finite too."""
