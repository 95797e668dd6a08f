"""The event file: what a recorded program writes while it runs, readable at any moment.

    slot 0    header   magic, version, process id, monotonic time of the start
    slot 1    status   how the file ended, how many slots it has then, and how many events found no
                       room; of a file that was not ended the length is a multiple of CHUNK
    slot 2..  events   one per slot, in the order in which they began

Every slot has 32 bytes, little-endian, and its last byte is its kind, written after the rest: a
slot of kind 0 was never finished. The file grows by whole chunks of zeros that exist on the disk
before they are written to, so a full disk is an error to the writer and never a signal, and a
program that is killed in the middle of a write leaves all slots before it whole.

Times are int64 ns of the monotonic clock; CLOCK slots pair them with the wall clock, and the
reader moves them there. Nothing but the standard library is imported: the writer lives in other
people's programs.
"""

from __future__ import annotations

import struct

MAGIC = b"SIGHTLINE-EVENTS"
VERSION = 2  # since 2 the status says how many slots there are, once the file has ended
READ = (1, 2)
FIRST_WITH_END = 2
SLOT = 32
CHUNK = 1 << 20  # 32,768 slots; a process that marks little costs 1 MiB until it ends
MOST_BYTES = 1 << 30  # 33 million events: more is a mistake in the loop, and disks are shared
FIRST_EVENT = 2
SUFFIX = ".events"

HEADER = struct.Struct("<16sIIq")  # magic, version, pid, monotonic ns
STATUS = struct.Struct("<IIqqIHBB")  # state, errno, lost events, written slots, 0, 0, 0, kind
WRITTEN = struct.Struct("<q")  # the slots of STATUS, alone, at WRITTEN_AT
WRITTEN_AT = SLOT + 16
EVENT = struct.Struct("<qqIIIHBB")  # first, second, name, thread, extra, flags, device, kind
COUNTER = struct.Struct("<qdIIIHBB")  # time, value, name, thread, extra, flags, device, kind
TEXT = struct.Struct("<IHB24sB")  # text id, part, length, bytes, kind
TEXT_BYTES = 24
END = struct.Struct("<q")  # second of EVENT, alone, at END_AT
END_AT, KIND_AT = 8, 31

# Kinds of slots. What `first` and `second` are: start and end, or a moment and nothing.
EMPTY, OPEN, RANGE, OPEN_STEP, STEP, MARK, SAMPLE, CLOCK, NAME, FACT, VOID, STATE = range(12)

# States of slot 1.
WRITING, CLOSED, FULL = range(3)

# Bits of `flags`.
SYNCHRONIZED = 1  # the device was waited for before the time was taken
HAS_PAYLOAD = 2  # `extra` is the number of a text: JSON that the event carries
HAS_LABELS = 4  # ... an array of domain and category, and on a next line what the event carries

NO_DEVICE = 255
