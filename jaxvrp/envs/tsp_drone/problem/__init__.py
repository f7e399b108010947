"""The travelling salesman problem with drone as data: instances, files, figures, and the check of a plan."""
