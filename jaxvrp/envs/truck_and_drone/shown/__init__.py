"""What a person sees of an episode: its story, why an action is not allowed, the still of a state."""
