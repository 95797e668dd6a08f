"""What the page shows of jobs."""
