"""Prints the recomputed cost of every plan of a record; the exit status is 1 if one is wrong. Needs NumPy alone.

    python benchmarks/records/checkers FOLDER_OF_THE_PUBLISHED_FILES RECORD.json

What a plan means, and all that is checked of it, is in the file beside this one that has the name of its environment.
"""

import importlib
import json
import sys
from pathlib import Path

ROUNDING = 1e-5
"""Share by which a stated cost may differ: plans are searched in 32 bits."""

CHECKERS = ("darp", "flying_sidekicks", "truck_drone_tours", "tsp_drone")


def main():
    """The command line."""
    data, record = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    if record["environment"] not in CHECKERS:
        sys.exit(f"there is no checker of {record['environment']!r}, only of {', '.join(CHECKERS)}")
    checker = importlib.import_module(record["environment"])
    for entry in record["records"]:
        found = checker.cost_of(data, entry)
        if abs(found - entry["cost"]) > ROUNDING * found:
            sys.exit(f"{entry['instance']}: stated {entry['cost']}, recomputed {found}")
        print(f"{entry['instance']}: {found:.6f}")


if __name__ == "__main__":
    main()
