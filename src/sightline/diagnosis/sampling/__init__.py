"""Causes of a long run from excerpts of it: which steps are asked, and what they stand for."""
