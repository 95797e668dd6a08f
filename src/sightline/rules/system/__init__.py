"""What the operating system did with the threads that feed the device."""

from sightline.registry import OF_THREAD, Family

FAMILY = Family("system", "The operating system", share_without_device=OF_THREAD)
