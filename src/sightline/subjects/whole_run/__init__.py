"""The run as a whole: its window, where time went, steps, the critical path, what limits it."""

from sightline.core.registry import Subject

SUBJECT = Subject("whole_run", "The run as a whole")
