"""The command `jaxvrp`: one door to training, evaluation, replay, plans and benchmarks.

A package beside `jaxvrp`, and not in it: it knows the learners and the benchmarks, which the simulator does not. And
its name is nobody else's: `train` and `benchmarks` are names that users give to files of their own, and this package
finds ours whatever lies in their folder. What needs no JAX (`--help`, `list`, the versions) is said at once.
"""
