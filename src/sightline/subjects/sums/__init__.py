"""What can be said of sums by name alone, where a profiler's tables have no timeline."""

from sightline.core.registry import OF_SUMS, Subject

SUBJECT = Subject(
    "sums", "Sums", share_of=OF_SUMS, share_without_device=OF_SUMS, needs=("call_sums",)
)
