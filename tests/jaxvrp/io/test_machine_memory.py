"""How much memory there is, how much arrays take, and the one line where they do not fit."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxvrp.io import machine_memory
from jaxvrp.io.machine_memory import bytes_of, check_count, host_bytes, in_words, machine_bytes, refusal


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="no other word on the memory of this machine")
def test_the_memory_is_that_of_the_machine_or_less(monkeypatch):
    monkeypatch.setattr(machine_memory, "CONTAINER_LIMITS", ())
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert host_bytes() == pytest.approx(1024 * int(line.split()[1]), rel=0.05)


def test_a_container_may_have_less(tmp_path, monkeypatch):
    (tmp_path / "limit").write_text("123456\n")
    (tmp_path / "none").write_text("max\n")
    monkeypatch.setattr(machine_memory, "CONTAINER_LIMITS", (tmp_path / "none", tmp_path / "limit", tmp_path / "away"))
    assert host_bytes() == 123456


def test_devices_with_memory_of_their_own_count_that(monkeypatch):
    class Device:
        def memory_stats(self):
            return {"bytes_limit": 1000}

    assert machine_bytes() == machine_bytes(8) == host_bytes()
    monkeypatch.setattr(jax, "local_devices", lambda: [Device()])
    assert (machine_bytes(), machine_bytes(8)) == (1000, 8000)


def test_arrays_are_counted_whether_they_exist_or_not():
    def make():
        return {"a": jnp.zeros((3, 5)), "b": (jnp.ones(7, bool), jnp.zeros((), jnp.int16)), "c": None}

    real = make()
    assert bytes_of(real) == sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(real)) == 3 * 5 * 4 + 7 + 2
    assert bytes_of(jax.eval_shape(make)) == bytes_of(real)
    assert bytes_of(jax.eval_shape(lambda: jnp.zeros((10**10, 10**10), bool))) == 10**20
    keys = jax.random.split(jax.random.key(0), 6)
    assert bytes_of(keys) == jax.random.key_data(keys).nbytes


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_999, "1 MB"), (25_263_000_000, "25.3 GB"), (8e19, "80 EB")],
)
def test_bytes_in_words(count, words):
    assert in_words(count) == words


def test_what_does_not_fit_is_told_with_what_does(monkeypatch):
    monkeypatch.setattr(machine_memory, "host_bytes", lambda: 1_000_000)
    check_count("num_things", 1000, 1000)
    says = "num_things is 1001; that takes at least 1 MB of memory, and there are 1 MB: num_things 125 should fit"
    with pytest.raises(ValueError, match=f"^{says}$"):
        check_count("num_things", 1001, 1000)
    with pytest.raises(ValueError, match=r"that takes at least 20 MB of memory, and there are 1 MB: lower num_things$"):
        check_count("num_things", 2, 10**7)
    assert refusal("n", 5, 2000, 10, None) == "n is 5; that takes at least 2 kB of memory, and there are 10 B: lower n"
