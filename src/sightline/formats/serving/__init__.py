"""What inference servers and their benchmarks write: requests, percentiles, log lines."""
