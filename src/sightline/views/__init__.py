"""Views of a run for a person. No arithmetic of their own beyond choosing and formatting."""
