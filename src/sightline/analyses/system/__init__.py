"""What the operating system did with the threads: questions to a trace of the kernel."""

from sightline.registry import Family

FAMILY = Family("system", "The operating system")
