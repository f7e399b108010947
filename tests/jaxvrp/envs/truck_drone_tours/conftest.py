"""What the tests of tandems share: the published instances, where they are stored."""

import pytest


@pytest.fixture(scope="session")
def kuo(published_folder):
    """The folder of Kuo et al.'s instances with time windows."""
    return published_folder("vrptwd_kuo") / "vrptwd_kuo"
