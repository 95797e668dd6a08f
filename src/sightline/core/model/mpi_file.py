"""The file of a rank's MPI calls, which record/collect/mpi/recorder.c writes: `rankR-HOST-PID.mpi`.

    header    HEADER_BYTES: magic, version, process, rank, and the clocks at begin and end; from
              NAMES_AT on the routines' names, one a line, in the order of their numbers
    records   one per call, of RECORD's size; a call that sends, receives or completes several
              messages has a record for each, with its own times

Times are int64 ns of the monotonic clock. Records stand in the order in which the calls ended. All
is little-endian; NONE stands for what is not known.
"""

from __future__ import annotations

import struct

MAGIC = b"SIGHTLINE-MPI\n"
VERSION = 1
SUFFIX = ".mpi"
HEADER_BYTES, NAMES_AT = 4096, 128
# magic, version, pid, rank, size, begin, begin's wall clock, end, end's, record's size, ended, lost
HEADER = struct.Struct("<16sIIiiqqqqIIq")
RECORD_BYTES = 80
NONE = -1
NO_GROUP = 2**32 - 1
# What a record is.
CALL, SEND, RECEIVE, POST_SEND, POST_RECEIVE, COMPLETED, COLLECTIVE = range(7)
FIELDS = (
    ("start_ns", "<i8"),
    ("end_ns", "<i8"),
    ("bytes", "<i8"),
    ("received", "<i8"),
    ("request", "<i8"),
    ("thread", "<u4"),
    ("group", "<u4"),
    ("routine", "<u2"),
    ("what", "<u2"),
    ("group_size", "<i4"),
    ("peer", "<i4"),
    ("peer_rank", "<i4"),
    ("root", "<i4"),
    ("root_rank", "<i4"),
    ("tag", "<i4"),
    ("unused", "<i4"),
)
