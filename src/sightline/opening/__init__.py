"""From what a person typed to a run: paths, formats, the cache, ranks."""
