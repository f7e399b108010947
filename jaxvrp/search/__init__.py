"""What the anytime searches of all environments have in common; see `jaxvrp.players.Search`.

`loop` plays a search until it is to stop, `stop` says when that is, `annealing` how cool it is by then, `side_by_side`
plays parts of it on all cores, and `found` tells when its best plan was found.
"""
