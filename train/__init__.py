"""Learners for the environments of jaxvrp, trained end to end inside `jit`."""
