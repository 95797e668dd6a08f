"""A server that runs: what two readings of its metrics say, and which limit it is at."""
