"""The problem: boards and their files, the generator, starts, and what belongs to an instance."""
