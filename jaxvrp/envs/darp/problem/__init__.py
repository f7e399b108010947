"""The dial-a-ride problem: instances, their generator, the benchmark format, and a checker of whole plans."""
