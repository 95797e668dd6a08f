"""A cluster's jobs over time: what comes in, where it is kept, who may see what of it."""
