"""Runs over time: what is kept of each, where it changed, and which commit did it."""
