"""The environments; reach them by `jaxvrp.make`."""
