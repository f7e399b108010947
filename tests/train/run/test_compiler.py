"""Programs that are compiled in threads: what they give, what they raise, and what is left when a run stops."""

import functools
import os
import signal
import threading

import jax
import jax.numpy as jnp
import pytest

from train.on_policy.config import PPOConfig
from train.run.compiler import MOST_KEPT, Compiler, Kept


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("compiler")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    for thread in threads():
        thread.join(60)
    assert not threads()


@pytest.fixture
def held(monkeypatch):
    """`held.set()` lets compilation go on; `held.began` is set when a thread has come so far."""
    go_on, original = threading.Event(), jax.stages.Lowered.compile
    go_on.began, go_on.names = threading.Event(), []

    def compile_later(lowered, *options):
        go_on.names.append(lowered.as_text().split()[1])
        go_on.began.set()
        assert go_on.wait(60)
        return original(lowered, *options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_later)
    yield go_on
    go_on.set()


@pytest.fixture
def optimized():
    """As users compile, and not as tests do."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.mark.parametrize("quick", [False, True])
def test_a_program_gives_what_it_gives(quick, optimized):
    program, numbers = jax.jit(lambda x: jnp.sin(x) @ x), jnp.linspace(0.0, 1.0, 9)
    with Compiler() as compiler:
        compiled = compiler.compile(program, jax.eval_shape(lambda: numbers), quick=quick)
        assert compiled(numbers) == program(numbers)
        assert compiled(2 * numbers) == program(2 * numbers)


def test_a_function_that_is_not_jitted_is_given_back():
    with Compiler() as compiler:
        assert compiler.compile(abs, 3) is abs


def test_a_failure_is_raised_where_the_program_is_called(monkeypatch):
    def fail(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: too large")

    monkeypatch.setattr(jax.stages.Lowered, "compile", fail)
    with Compiler() as compiler:
        broken = compiler.compile(jax.jit(jnp.sin), 1.0)
        with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED: too large"):
            broken(1.0)


def test_ctrl_c_does_not_wait_for_the_compiler(held):
    with pytest.raises(KeyboardInterrupt), Compiler() as compiler:
        program = compiler.compile(jax.jit(jnp.sin), 1.0)
        assert held.began.wait(60)
        threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        program(1.0)
    assert threads(), "it compiles still, and ends by itself"


def test_what_has_not_begun_is_dropped(held, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with Compiler() as compiler:
        for function in (jnp.sin, jnp.cos, jnp.tan):
            compiler.compile(jax.jit(function), 1.0)
        assert held.began.wait(60)
    held.set()
    for thread in threads():
        thread.join(60)
    assert len(held.names) == 1


def test_a_program_that_is_kept_is_compiled_once(held):
    held.set()
    kept = Kept()
    for config, scale in ((PPOConfig(gamma=0.9), 2.0), (PPOConfig(gamma=0.8), 3.0), (PPOConfig(num_epochs=9), 5.0)):
        with Compiler(kept.of(config)) as compiler:
            scaled = functools.partial(jax.jit(jnp.multiply), scale)
            assert compiler.compile(scaled, 1.0, name="scaled")(7.0) == scale * 7.0
    assert len(held.names) == 2  # another `gamma` is the same program, another `num_epochs` is not


def test_what_was_dropped_is_compiled_by_the_next_run(held, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    kept = Kept().of(PPOConfig())
    with Compiler(kept) as compiler:
        for function in (jnp.sin, jnp.cos):
            compiler.compile(jax.jit(function), 1.0, name=function.__name__)
        assert held.began.wait(60)
    held.set()
    with Compiler(kept) as compiler:
        assert compiler.compile(jax.jit(jnp.cos), 1.0, name="cos")(1.0) == jnp.cos(1.0)


def test_programs_of_few_configurations_are_kept():
    kept = Kept()
    first = kept.of(PPOConfig())
    for epochs in range(1, MOST_KEPT + 1):
        assert kept.of(PPOConfig()) is first
        kept.of(PPOConfig(num_epochs=10 + epochs))
    kept.of(PPOConfig(num_epochs=10))
    assert kept.of(PPOConfig()) is first
    for epochs in range(1, MOST_KEPT + 1):
        kept.of(PPOConfig(num_epochs=20 + epochs))
    assert kept.of(PPOConfig()) is not first
