"""Two sides against each other, each of one run or several: what changed, and is it real."""
