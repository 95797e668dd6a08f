"""What the host itself did: operators, ranges, calls, and the main thread of each process."""

from sightline.core.registry import OF_THREAD, Subject

SUBJECT = Subject("host", "The host", share_without_device=OF_THREAD, in_steps=True)
