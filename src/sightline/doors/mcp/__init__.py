"""`sightline mcp`: the session's questions as tools of a language model."""
