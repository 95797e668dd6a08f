"""What fills a device's memory."""

from sightline.registry import Family

FAMILY = Family("memory", "Memory")
