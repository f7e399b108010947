"""Whole files, arrays with a schema, lines of text, command lines: what everything reads and writes with."""
