"""One file a rule; its docstring is its page."""
