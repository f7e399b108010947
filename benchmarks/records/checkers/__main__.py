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


def check(data, source):
    """Print the costs of a record's plans.

    Raises:
        ValueError: the record is wrong.
        AttributeError, LookupError, OSError, TypeError: it is damaged, or a published file is not there.
    """
    record = json.loads(source.read_text(encoding="utf-8"))
    if record["environment"] not in CHECKERS:
        raise ValueError(f"there is no checker of {record['environment']!r}, only of {', '.join(CHECKERS)}")
    checker = importlib.import_module(record["environment"])
    if not record["records"]:
        raise ValueError("it has no plans")
    for entry in record["records"]:
        found = checker.cost_of(data, entry)
        if not abs(found - entry["cost"]) <= ROUNDING * found:  # also where it is no number
            raise ValueError(f"{entry['instance']}: stated {entry['cost']}, recomputed {found}")
        print(f"{entry['instance']}: {found:.6f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/records/checkers FOLDER_OF_THE_PUBLISHED_FILES RECORD.json")
    try:
        check(Path(sys.argv[1]), Path(sys.argv[2]))
    except ValueError as error:
        sys.exit(f"{sys.argv[2]}: {error}")
    except (AttributeError, LookupError, OSError, TypeError) as error:
        sys.exit(f"{sys.argv[2]} cannot be read: {type(error).__name__}: {error}")
