"""One file per rule. A rule's docstring is its page; `sightline explain RULE` prints it."""
