"""Damaged and hostile inputs through the real command line: `make attack`."""
