"""Where every network is one vector, as on accelerators, the same is learned as from their arrays."""

import jax
import numpy as np
import pytest

from train.algorithms import make_train


@pytest.mark.parametrize(
    "changes",
    [{}, {"share_drone_policy": False, "critic": "local", "max_grad_norm": 0.01}],
    ids=["central critic", "separate actors and critics"],
)
def test_what_is_learned_from_vectors(config, changes):
    apart, apart_metrics = trained(config(**changes), joins=False)
    joined, joined_metrics = trained(config(**changes), joins=True)
    assert jax.tree.structure(joined) == jax.tree.structure(apart)
    close((joined.params, joined.optimizer, joined_metrics), (apart.params, apart.optimizer, apart_metrics))


def trained(config, joins):
    """The state after an update, and its metrics."""
    trainer = make_train(config)
    assert not trainer.joins, "the tests run on a CPU"
    trainer.joins = joins
    return trainer.train_chunk(trainer.init(jax.random.key(0)))


def close(found, wanted):
    jax.tree.map(lambda leaf, other: np.testing.assert_allclose(leaf, other, rtol=1e-3, atol=1e-5), found, wanted)
