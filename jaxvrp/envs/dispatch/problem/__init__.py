"""A day as data: requests, vehicles, and what draws them."""
