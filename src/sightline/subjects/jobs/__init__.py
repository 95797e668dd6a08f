"""Jobs of a cluster: what each was given, what it used, and what is wrong with it."""

from sightline.core.registry import OF_JOBS, Subject

SUBJECT = Subject("jobs", "Jobs of a cluster", share_of=OF_JOBS, needs=("jobs",))
