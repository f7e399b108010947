"""The best plan of a whole day of `dispatch`, known in advance: what any policy falls short of."""
