"""The command `jaxvrp`: one door to training, evaluation, replay, plans and benchmarks.

A package beside `jaxvrp`, and not in it, for three reasons. It knows the learners and the benchmarks, which the
simulator does not. Importing anything of `jaxvrp` imports JAX, which takes a second or more, and what can be said
without it (`--help`, `list`, the versions) is said at once. And its name is nobody else's: `train` and `benchmarks` are
names that users give to files of their own, and this package finds ours whatever lies in their folder.
"""
