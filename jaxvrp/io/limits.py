"""How large numbers may be: everything is computed in `float32` and indexed with `int32`."""

LARGEST_WHOLE = 2**31 - 1
"""Whole numbers are at most this in size, where no other bound is given: sizes become indices."""

LEAST, LARGEST = 1e-12, 1e12
"""Numbers are at most `LARGEST` in size, and what must be above 0 is at least `LEAST`. `float32` ends at 3.4e38 and
flushes what is below 1.2e-38 to 0; within these bounds squares, sums and quotients stay finite too."""
