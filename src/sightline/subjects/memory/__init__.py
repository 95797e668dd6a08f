"""What fills the device's memory, and what keeps it from being used."""

from sightline.core.registry import OF_MEMORY, Subject

SUBJECT = Subject("memory", "Memory", share_of=OF_MEMORY)
