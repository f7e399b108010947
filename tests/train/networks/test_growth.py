"""Parameters for networks that read more features: rows of the new ones are 0, all others stay with their features."""

import types

import numpy as np

from train.networks.growth import grown


def env(context, features):
    named = [[types.SimpleNamespace(name=name) for name in names] for names in (context, features)]
    role, kind = types.SimpleNamespace(context=named[0]), types.SimpleNamespace(features=named[1])
    return types.SimpleNamespace(roles={"vehicle": role}, entity_kinds=(kind,))


BEFORE, AFTER = env("ab", "pqr"), env("abc", "pxqry")
PARAMS = {
    "context": np.arange(4, dtype=np.float32).reshape(2, 2),
    "entity": np.arange(10, dtype=np.float32).reshape(5, 2),  # two rows are of places, not of features
    "other": np.arange(6, dtype=np.float32).reshape(3, 2),
    "bias": np.arange(3, dtype=np.float32),
}


def test_rows_of_new_features_are_0_and_the_others_stay_with_theirs():
    wanted = {**PARAMS, "context": np.zeros((3, 2)), "entity": np.zeros((7, 2))}
    larger = grown(PARAMS, wanted, BEFORE, AFTER)
    np.testing.assert_array_equal(larger["context"], [[0, 1], [2, 3], [0, 0]])
    np.testing.assert_array_equal(larger["entity"], [[0, 1], [0, 0], [2, 3], [4, 5], [0, 0], [6, 7], [8, 9]])
    for name in ("other", "bias"):
        assert larger[name] is PARAMS[name]


def test_what_no_feature_explains_stays():
    """So that the caller finds that it does not fit."""
    for wanted in ({**PARAMS, "other": np.zeros((9, 2))}, {**PARAMS, "context": np.zeros((3, 4))}, {"context": 0}):
        larger = grown(PARAMS, wanted, BEFORE, AFTER)
        assert all(larger[name] is PARAMS[name] for name in PARAMS)
    fewer = {**PARAMS, "context": np.zeros((1, 2))}
    assert grown(PARAMS, fewer, BEFORE, env("a", "pqr"))["context"] is PARAMS["context"]
