"""What is known of a node, read from this machine (`this_node.py`) or from recordings."""
