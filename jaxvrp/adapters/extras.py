"""What an adapter says if the library that it adapts to is not installed.

Example:

    try:
        import pettingzoo
    except ModuleNotFoundError as error:
        raise missing_extra("pettingzoo", error) from None
"""

from __future__ import annotations


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The one line to raise in place of `error`; `error` itself if it is some other module that was not found."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error
    text = f"'{extra}' is not installed, and this adapter needs it: pip install jaxvrp[{extra}]"
    return ModuleNotFoundError(text, name=error.name)
