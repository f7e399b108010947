"""What is damaged, and what a reader says of it."""

import copy

import pytest


def refusal(call, *arguments, **options):
    """The one line of the ValueError that a call raises."""
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def changed(content, where, value):
    """JSON values with another one at a place like `jobs/0/skills`; `...` takes it out."""
    content = copy.deepcopy(content)
    *path, last = where.split("/")
    entry = content
    for name in path:
        entry = entry[int(name) if isinstance(entry, list) else name]
    last = int(last) if isinstance(entry, list) else last
    if value is ...:
        del entry[last]
    else:
        entry[last] = value
    return content
