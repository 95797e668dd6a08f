"""One file per output format: a constant `EXPORTER` and a function `write`."""
