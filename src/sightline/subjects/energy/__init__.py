"""Joules that were used for nothing, or for more than the same work takes elsewhere."""

from sightline.core.registry import OF_ENERGY, Subject

SUBJECT = Subject("energy", "Energy", share_of=OF_ENERGY)
