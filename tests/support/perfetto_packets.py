"""Perfetto traces written by Google's protobuf library, apart from the reader that is tested."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from sightline.core.protobuf import declare_messages

# Fields by the numbers of google/perfetto, protos/perfetto/trace; enums as numbers.
_MESSAGES = declare_messages(
    """
Trace: 1 packet []TracePacket
TracePacket: 1 ftrace_events Ftrace, 2 process_tree ProcessTree, 3 trusted_uid int,
    6 clock_snapshot ClockSnapshot, 7 sys_stats SysStats,
    9 process_stats ProcessStats, 8 timestamp uint, 10 trusted_packet_sequence_id uint,
    11 track_event TrackEvent, 12 interned_data InternedData, 13 sequence_flags uint,
    42 previous_packet_dropped bool, 50 compressed_packets bytes, 52 gpu_counter_event GpuCounters,
    53 gpu_render_stage_event Stage, 54 streaming_profile_packet Profile,
    58 timestamp_clock_id uint, 59 trace_packet_defaults Defaults, 60 track_descriptor Track,
    66 perf_sample Sample, 71 gpu_mem_total_event GpuMemory, 128 gpu_info GpuInfo
Ftrace: 1 cpu uint, 2 event []FtraceEvent, 4 compact_sched Compact
FtraceEvent: 1 timestamp uint, 2 pid uint, 3 print Print, 4 sched_switch Switch,
    313 rss_stat RssStat, 332 gpu_frequency Frequency, 340 gpu_mem_total GpuMemory,
    351 dma_heap_stat HeapStat, 359 rss_stat_throttled Throttled
SysStats: 1 meminfo []Meminfo
Meminfo: 1 key uint, 2 value uint
ProcessStats: 1 processes []ProcessMemory
ProcessMemory: 1 pid int, 2 vm_size_kb uint, 3 vm_rss_kb uint, 4 rss_anon_kb uint
RssStat: 1 member int, 2 size int, 3 curr uint, 4 mm_id uint
Throttled: 1 curr uint, 2 member int, 3 mm_id uint, 4 size int
GpuMemory: 1 gpu_id uint, 2 pid uint, 3 size uint
HeapStat: 1 inode uint, 2 len int, 3 total_allocated uint
Print: 1 ip uint, 2 buf text
Switch: 1 prev_comm text, 2 prev_pid int, 3 prev_prio int, 4 prev_state int, 5 next_comm text,
    6 next_pid int
Frequency: 1 gpu_id uint, 2 state uint
Compact: 1 switch_timestamp [packed]uint, 2 switch_prev_state [packed]int,
    3 switch_next_pid [packed]int
ProcessTree: 1 processes []Process, 2 threads []Thread
Process: 1 pid int, 3 cmdline []text
Thread: 1 tid int, 2 name text, 3 tgid int
ClockSnapshot: 1 clocks []Clock, 2 primary_trace_clock uint
Clock: 1 clock_id uint, 2 timestamp uint, 3 is_incremental bool, 4 unit_multiplier_ns uint
TrackEvent: 3 category_iids []uint, 4 debug_annotations []Annotation, 9 type uint, 10 name_iid uint,
    11 track_uuid uint, 12 extra_counter_values []int, 22 categories []text, 23 name text,
    30 counter_value int, 31 extra_counter_track_uuids []uint, 44 double_counter_value double,
    47 flow_ids []fixed64, 48 terminating_flow_ids []fixed64, 56 callstack_iid uint,
    3000 gpu_correlation Correlation
Correlation: 1 render_stage_submission_event_ids []uint, 2 render_stage_wait_event_ids []uint
Annotation: 1 name_iid uint, 2 bool_value bool, 4 int_value int, 5 double_value double,
    6 string_value text, 10 name text, 11 dict_entries []Annotation, 12 array_values []Annotation
Track: 1 uuid uint, 2 name text, 3 process TrackProcess, 4 thread TrackThread, 5 parent_uuid uint,
    8 counter TrackCounter
TrackProcess: 1 pid int, 6 process_name text
TrackThread: 1 pid int, 2 tid int, 5 thread_name text
TrackCounter: 3 unit uint, 4 unit_multiplier int, 5 is_incremental bool, 6 unit_name text
Defaults: 11 track_event_defaults TrackDefaults, 58 timestamp_clock_id uint
TrackDefaults: 11 track_uuid uint, 31 extra_counter_track_uuids []uint
InternedData: 1 event_categories []Name, 2 event_names []Name, 3 debug_annotation_names []Name,
    5 function_names []Name, 6 frames []Frame, 7 callstacks []Callstack, 17 mapping_paths []Name,
    19 mappings []Mapping, 23 graphics_contexts []Context, 24 gpu_specifications []Specification,
    1000 compute_kernels []Kernel, 1001 compute_arg_names []Name
Name: 1 iid uint, 2 name text
Frame: 1 iid uint, 2 function_name_id uint, 3 mapping_id uint
Callstack: 1 iid uint, 2 frame_ids []uint
Mapping: 1 iid uint, 7 path_string_ids []uint
Context: 1 iid uint, 2 pid int, 3 api uint
Specification: 1 iid uint, 2 name text, 3 description text, 4 category uint
Kernel: 1 iid uint, 2 name text, 3 demangled_name text, 4 arch text, 5 args []Argument
Argument: 1 name_iid uint, 2 name text, 3 int_value int, 4 uint_value uint
Stage: 1 event_id uint, 2 duration uint, 3 hw_queue_id int, 4 stage_id int, 5 context uint,
    6 extra_data []Extra, 10 submission_id uint, 11 gpu_id int, 13 hw_queue_iid uint,
    14 stage_iid uint, 17 name text, 18 event_wait_ids []uint, 19 kernel_iid uint, 20 name_iid uint,
    21 launch Launch
Extra: 1 name text, 2 value text
Launch: 1 grid_size Size, 2 workgroup_size Size, 3 args []Argument
Size: 1 x uint, 2 y uint, 3 z uint
GpuCounters: 1 counter_descriptor Descriptor, 2 counters []Counter, 3 gpu_id int
Descriptor: 1 specs []Spec
Spec: 1 counter_id uint, 2 name text, 3 description text, 7 numerator_units []uint,
    8 denominator_units []uint, 10 groups []uint
Counter: 1 counter_id uint, 2 int_value int, 3 double_value double
Profile: 1 callstack_iid []uint, 2 timestamp_delta_us []int
Sample: 1 cpu uint, 2 pid uint, 3 tid uint, 4 callstack_iid uint
GpuInfo: 1 gpus []Gpu
Gpu: 1 name text, 2 vendor text, 3 model text, 4 architecture text, 5 uuid bytes,
    6 extra_info []Pair, 7 pci_bdf text
Pair: 1 key text, 2 value text
"""
)
_ENUMS = {"TYPE_SLICE_BEGIN": 1, "TYPE_SLICE_END": 2, "TYPE_INSTANT": 3, "TYPE_COUNTER": 4}
CLEARED, NEEDS = 1, 2


def write_trace(*packets: Any) -> bytes:
    """A trace of these packets; each is on sequence 1 unless it says otherwise."""
    trace = _MESSAGES["Trace"]()
    for packet in packets:
        trace.packet.add(**{"trusted_packet_sequence_id": 1, **packet})
    data: bytes = trace.SerializeToString()
    return data


def read_text_trace(path: Path) -> bytes:
    """The bytes of a trace in protobuf's text form, as Perfetto's own tests are written."""
    # Extensions by their plain names, and enums that matter as numbers.
    text = re.sub(r"\[perfetto\.protos\.\w+\.(\w+)\]", r"\1", path.read_text())
    text = re.sub(r": ([A-Z][A-Z_]+)\b", lambda found: f": {_ENUMS.get(found[1], 0)}", text)
    data: bytes = text_format.Parse(
        text, _MESSAGES["Trace"](), allow_unknown_field=True
    ).SerializeToString()
    return data
