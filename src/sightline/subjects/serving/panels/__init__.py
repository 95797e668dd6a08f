"""What the page shows of it."""
