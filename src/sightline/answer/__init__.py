"""What every view draws, made once: what was read, where time went, findings, what limits them."""
