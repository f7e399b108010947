"""What is damaged, and what must not come of it: a module for each kind."""
