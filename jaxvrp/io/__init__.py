"""Whole files, arrays with a schema, lines of text, command lines: tools for reading and writing."""
