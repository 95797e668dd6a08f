"""One file per sub-command: parse, call, print."""
