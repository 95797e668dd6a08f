"""Makes recordings while programs run: launched by us, already running, or the whole machine."""
