"""What a dispatcher has: customers in a table or on a map, and a fleet, in clock times, kilograms and kilometres.

`read_orders` and `read_fleet` read files as people and programs write them. An environment makes its own problem of
both, see `jaxvrp.Problems.of_case`; nothing here knows one. `Visit`s are what a plan comes to for a driver.
"""
