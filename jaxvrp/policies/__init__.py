"""Trained policies, played without what trained them: networks, actors, folders, and exported programs."""
