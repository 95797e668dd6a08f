"""Thin doors to a session: the command line, the fixture of pytest."""
