"""What makes recordings while a program runs."""
