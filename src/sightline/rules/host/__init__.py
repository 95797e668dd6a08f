"""What the host itself did, where no device was recorded: the main thread of each process."""

from sightline.registry import OF_THREAD, Family

FAMILY = Family("host", "The host", share_without_device=OF_THREAD)
