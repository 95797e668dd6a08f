"""The checks, a file for each family, each with its list `CHECKS`."""
