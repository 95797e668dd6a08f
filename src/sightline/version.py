"""The version of sightline, for whoever writes it down."""

__version__ = "0.2.0"
