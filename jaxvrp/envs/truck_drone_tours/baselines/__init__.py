"""A search and a planner of tours."""
