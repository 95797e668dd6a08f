"""Patterns over operators, shapes, types and strides: slow ways to do a thing, as a table."""
