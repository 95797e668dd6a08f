"""One module per recording format; `_open` turns paths into a run."""
