"""What is said when a process of several has ended; also a program that says it for a process that no longer can.

JAX aborts a process as soon as process 0 is gone, and nothing in the process can prevent that, or say a word.
"""

from __future__ import annotations

import pathlib
import sys

ENDED = "ended"
"""What a process tells the program that waits beside it, if it ends by itself."""


def last_words(folder: pathlib.Path, what: str) -> str:
    """One line: what has happened, what is kept in a run folder, and how to go on."""
    updates = [path.parent.name for path in folder.glob("checkpoints/*/contents.json")]
    update = max((int(name) for name in updates if name.isdecimal()), default=None)
    if update is None:
        return f"\nerror: {what}; there is no checkpoint yet; start anew"
    kept = f"the checkpoint of update {update} is kept"
    return f"\nerror: {what}; {kept}; start all processes again with --resume {folder}"


if __name__ == "__main__":
    if sys.stdin.read() != ENDED:
        print(last_words(pathlib.Path(sys.argv[1]), sys.argv[2]), file=sys.stderr, flush=True)
