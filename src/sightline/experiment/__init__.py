"""`sightline try`: variants of a program run in turn, until it is known which is faster."""
