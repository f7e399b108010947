"""What vehicles are committed to: their plans, when stops are served, where a request fits, and how time passes."""
