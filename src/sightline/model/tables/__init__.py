"""The declared tables, one file each."""
