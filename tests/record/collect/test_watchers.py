"""What is said of a tool that recorded nothing."""

from __future__ import annotations

from sightline.record.collect.watchers import find_reason

BACKTRACE = """Error: Failed to find python version from target process

Stack backtrace:
   0: anyhow::error::<impl anyhow::Error>::msg
   7: main
"""


def test_the_reason_is_the_error_and_not_the_backtrace_below_it() -> None:
    assert find_reason(BACKTRACE) == "Failed to find python version from target process"
    assert find_reason("first\nPermission denied\n") == "Permission denied"
    assert find_reason("") is None
