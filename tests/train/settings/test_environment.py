"""From a configuration to its environment: seen as the network reads it, or refused in one line."""

import pytest

from tests.toy_environments import Deliveries
from train.algorithms import ALGORITHMS
from train.on_policy.config import PPOConfig
from train.settings.environment import environments

DARP = {"name": "darp", "num_nodes": 6}


def prepared(env, network):
    return environments(PPOConfig(env=env, network=network, num_devices=1))[0]


@pytest.mark.parametrize("network", ["mlp", "gru", "attention"])
def test_an_environment_is_seen_as_the_network_reads_it(network):
    wanted = "entities" if network == "attention" else "flat"
    for env in (DARP, {**DARP, "observation": wanted}):
        made = prepared(env, network)
        assert made.parameters["observation"] == wanted
        assert bool(made.entity_kinds) == (network == "attention")
        assert made.parameters["num_nodes"] == 6


def test_an_environment_without_entities_serves_networks_that_read_vectors():
    for network in ("mlp", "gru"):
        assert prepared({"name": "toy_of_the_tests", "cut": True}, network).cut
    assert prepared({"name": "deliveries_of_the_tests"}, "attention") == Deliveries()


@pytest.mark.parametrize(
    ("env", "network", "says"),
    [
        (
            {**DARP, "observation": "flat"},
            "attention",
            r"^env\.observation is 'flat', which the network does not read; leave it out, or take 'mlp' or 'gru'$",
        ),
        (
            {**DARP, "observation": "entities"},
            "gru",
            r"^env\.observation is 'entities', which the network does not read; leave it out, or take 'attention'$",
        ),
        ({**DARP, "observation": "round"}, "mlp", r"^observation is 'round'; it must be one of: entities, flat$"),
        (
            {"name": "toy_of_the_tests"},
            "attention",
            r"^network is 'attention', which reads entities; 'toy_of_the_tests' shows none: take 'mlp' or 'gru'$",
        ),
        (
            {"name": "deliveries_of_the_tests"},
            "mlp",
            r"^network is 'mlp', which reads vectors; 'deliveries_of_the_tests' shows entities: take 'attention'$",
        ),
    ],
)
def test_what_the_network_does_not_read_is_one_line(env, network, says):
    with pytest.raises(ValueError, match=says):
        prepared(env, network)


def test_a_learner_without_a_choice_of_networks_reads_vectors():
    for env, says in (
        (
            {**DARP, "observation": "entities"},
            r"^env\.observation is 'entities', which .* does not read; leave it out$",
        ),
        (
            {"name": "deliveries_of_the_tests"},
            r"^env\.name 'deliveries_of_the_tests' shows entities, which this learner",
        ),
    ):
        with pytest.raises(ValueError, match=says):
            environments(ALGORITHMS["td3"].config_class(env=env))
