"""The conformance suite, for users' own environments and scenarios."""

from jaxvrp.testing.conformance import ConformanceError, check_env, check_shapes

__all__ = ["ConformanceError", "check_env", "check_shapes"]
