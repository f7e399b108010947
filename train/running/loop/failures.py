"""What is said of a run that cannot go on: why, what is safe, and what to do."""

from __future__ import annotations

import errno
import pathlib

REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EACCES: "give yourself access to it",
    errno.EPERM: "give yourself access to it",
    errno.EROFS: "give yourself access to it",
}


def cannot(verb: str, error: OSError, path: pathlib.Path) -> str:
    """`cannot write FILE: No space left on device; free some space`; FILE is `path` if the error names none."""
    remedy = REMEDIES.get(error.errno or 0, "mend that")
    return f"cannot {verb} {error.filename or path}: {error.strerror or error}; {remedy}"


def cannot_go_on(error: OSError, folder: pathlib.Path, update: int | None, num_updates: int, stage: str = "") -> str:
    """What is said when training cannot write into its run folder any more; see `what_is_kept`."""
    if not folder.is_dir():
        return (
            f"the run folder {folder} was removed or renamed during the run; if it was renamed, go on with --resume "
            "and its new name, else start anew"
        )
    return f"{cannot('write', error, folder)}; {what_is_kept(folder, update, num_updates, stage)}"


def what_is_kept(folder: pathlib.Path, update: int | None, num_updates: int, stage: str = "") -> str:
    """What a run that was stopped has left, and how to go on.

    Args:
        folder: of the run.
        update: of the newest checkpoint in it; None if there is none.
        num_updates: of the whole run, or of the stage.
        stage: `stage 1 of 2`; nothing for a run without stages, which cannot be resumed without a checkpoint.
    """
    if update is None and stage:
        return f"{stage} has no checkpoint yet; begin it again with --resume {folder}"
    if update is None:
        return f"nothing is saved, as there is no checkpoint yet; delete {folder}, and start anew"
    of_stage = f" of {stage}" if stage else ""
    return f"the checkpoint of update {update} of {num_updates}{of_stage} is kept, go on with --resume {folder}"
