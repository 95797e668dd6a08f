"""One rule asked of one recording: what `sightline.testing` offers to everyone."""

from sightline.testing import answers, assert_abstains, assert_silent, assert_speaks

__all__ = ["answers", "assert_abstains", "assert_silent", "assert_speaks"]
