"""Tandems with time windows as data: instances, files, and the check of a plan."""
