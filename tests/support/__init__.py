"""What several tests share: a second way to the same numbers, small traces, the command line."""
