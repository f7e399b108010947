"""Heuristics for the truck with its drone."""
