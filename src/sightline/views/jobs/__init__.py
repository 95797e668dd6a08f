"""Jobs of a cluster for a person: the list with its waste, one job, the weekly digest."""
