"""Lets the learners be imported where warnings are errors."""

import warnings

with warnings.catch_warnings():
    # distrax brings TensorFlow Probability, which reads names that JAX has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import distrax  # noqa: F401
