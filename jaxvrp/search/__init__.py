"""What the anytime searches of all environments have in common; see `jaxvrp.toolbox.Search`."""
