"""The answer as text in a terminal."""
