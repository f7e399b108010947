"""What a person sees of an episode: the entries of its page, and the still of a state."""
