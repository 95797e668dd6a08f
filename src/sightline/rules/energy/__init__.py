"""Joules that were used for nothing, or for more than the same work takes elsewhere."""

from sightline.registry import OF_ENERGY, Family

FAMILY = Family("energy", "Energy", share_of=OF_ENERGY)
