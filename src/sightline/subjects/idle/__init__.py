"""The device had nothing to do: who kept it waiting."""

from sightline.core.registry import Subject

SUBJECT = Subject("idle", "Idle time", in_steps=True)
