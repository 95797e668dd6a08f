"""The marks around the samples of perf that `sightline run` keeps as text.

`perf script` writes no end, so that a text cut off behind a sample looks whole. perf's own readers
take these lines for comments.
"""

from __future__ import annotations

BEGIN = "# sightline: samples of perf"
END = "# sightline: end of the samples"
