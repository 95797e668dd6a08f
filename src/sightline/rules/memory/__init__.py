"""What fills the device's memory, and what keeps it from being used."""

from sightline.registry import OF_MEMORY, Family

FAMILY = Family("memory", "Memory", share_of=OF_MEMORY)
