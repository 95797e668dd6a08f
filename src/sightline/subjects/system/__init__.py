"""What the operating system did with the threads that feed the device."""

from sightline.core.registry import OF_THREAD, Subject

SUBJECT = Subject("system", "The operating system", share_without_device=OF_THREAD)
