"""Who decides by rules: without looking ahead, and by looking at what may come, or will."""
