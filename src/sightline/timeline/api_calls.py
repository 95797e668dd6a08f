"""What an API call does to the thread that makes it: the one place where its name decides.

Names are those of the CUDA runtime and driver and of HIP, as profilers write them; Nsight Systems
puts a version behind them, as in cudaMemcpy_v3020. What applies is asked of each different name
once (`Texts`).
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import Texts

# CUPTI names callbacks of the runtime by the version in which a call last changed
# (cudaMemcpyAsync_v3020, cudaGraphLaunch_v10000); cuMemAlloc_v2 is a name of the driver itself.
RUNTIME_VERSION = r"_v\d{4,5}"
# CUDA Runtime API, "API synchronization behavior": calls that may return only when a stream, an
# event, the device, or their own copy or memset is done. Whether one did is for its times to say.
# Calls that do nothing but wait: of CUDA, HIP, SYCL and Level Zero (Synchronize); of HSA (HSA
# Runtime Specification 1.2, "Signals"); of OpenCL 3.0, 5.11 and 5.15; and of Unified Runtime and
# its forerunner (Unified Runtime Specification, "Event" and "Queue").
_SYNCHRONIZES = (
    r"Synchronize|^hsa_(?:amd_)?signal_wait|^cl(?:Finish|WaitForEvents)$"
    r"|^(?:ur|pi)(?:EventWait|EventsWait|QueueFinish)$"
)
_WAITS = (
    rf"{_SYNCHRONIZES}|StreamWaitValue|MemcpyWithStream|^(?:cuda|hip)Memcpy|^cuMemcpy"
    r"|Memset(?:_v|$)"
)
# Calls that ask whether something has passed and return at once (CUDA, HIP and Level Zero).
_POLLS = r"^(?:cuda|cu|hip)(?:Event|Stream)Query(?:_v|_ptsz|$)|^ze(?:Event|Fence)QueryStatus$"
_ORDERS_STREAMS = r"StreamWaitEvent"
# CUDA Runtime and Driver API, "Memory Management" and "Virtual Memory Management".
_ALLOCATES = (
    r"^(?:cuda|hip)(?:Host)?(?:Malloc|Free|Alloc|Register|Unregister|MemPool)"
    r"|^cu(?:MemAlloc|MemFree|MemCreate|MemMap|MemUnmap|MemSetAccess|MemRelease|MemHostAlloc)"
)
# An async allocation is ordered on the stream and does not stop the host.
_STREAM_ORDERED = r"(?:Malloc|Free|MemAlloc|MemFree)(?:FromPool)?Async"
# CUDA Runtime and Driver API, "Graph Management" and "Stream Management"; HIP's names are alike.
_BEGINS_CAPTURE, _ENDS_CAPTURE = r"StreamBeginCapture", r"StreamEndCapture"
_BUILDS_GRAPH = r"Graph(?:Instantiate|ExecUpdate|AddNode|Add\w+Node|Create)"
# Calls that put work on a stream by launching it: kernels, graphs, host functions.
LAUNCHES = r"^(?:cuda|cu|hip)\w*Launch"
_LAUNCHES_GRAPH = r"^(?:cuda|hip|cu)GraphLaunch"
_LAUNCHES_KERNELS = r"Launch(?:Cooperative)?Kernel"
_CALLS_BACK = r"^(?:cuda|cu|hip)(?:LaunchHostFunc|StreamAddCallback)"
_LOADS_CODE = r"ModuleLoad|ModuleUnload|LibraryLoad|LinkCreate|LinkComplete|ModuleGetFunction"
# What CUPTI's callbacks and records cost a launch under our own recorder: 200 launches of kernels
# of 1.2 µs took 0.80 ms unrecorded and 1.42 ms recorded (H100, CUDA 13.0), of a step that waits for
# the host. Of launches and a synchronization each it was 33 %, of blocking copies of 4 bytes 25 %,
# of graphs 11 %, and nothing where the device was the limit.
CUPTI_LAUNCH_NS = 3_100
# CUPTI's overhead records, as Nsight Systems (SQLite Schema Reference) and Kineto
# (cupti_strings.cpp) name them: these are the program's own cost, not the profiler's.
_LOADING_COST = r"(?i)^runtime (?:triggered )?module loading|^lazy function loading"
_OTHER_OWN_COST = r"(?i)^driver (?:jit )?compiler|^command buffer full"


def may_wait(names: Texts) -> pl.Series:
    """Which calls can hold the thread until the device has done something."""
    return names.match(_WAITS)


def synchronizes(names: Texts) -> pl.Series:
    """Which calls do nothing but hold the thread until the device is done."""
    return names.match(_SYNCHRONIZES)


def polls(names: Texts) -> pl.Series:
    """Which calls ask whether the device is done, without waiting for it."""
    return names.match(_POLLS)


def orders_streams(names: Texts) -> pl.Series:
    """Which calls tell a stream to wait for an event."""
    return names.match(_ORDERS_STREAMS)


def allocates(names: Texts) -> pl.Series:
    """Which calls allocate or free memory, and hold the thread for it."""
    return names.match(_ALLOCATES) & ~names.match(_STREAM_ORDERED)


def begins_capture(names: Texts) -> pl.Series:
    """Which calls let a stream collect what follows in a graph instead of running it."""
    return names.match(_BEGINS_CAPTURE)


def ends_capture(names: Texts) -> pl.Series:
    """Which calls end that."""
    return names.match(_ENDS_CAPTURE)


def builds_graph(names: Texts) -> pl.Series:
    """Which calls build a graph, make it executable, or change it."""
    return names.match(_BUILDS_GRAPH)


def launches_graph(names: Texts) -> pl.Series:
    """Which calls start a whole graph."""
    return names.match(_LAUNCHES_GRAPH)


def launches_kernels(names: Texts) -> pl.Series:
    """Which calls launch one kernel."""
    return names.match(_LAUNCHES_KERNELS)


def calls_back(names: Texts) -> pl.Series:
    """Which calls put a function of the host's on a stream."""
    return names.match(_CALLS_BACK)


def loads_code(names: Texts) -> pl.Series:
    """Which calls load, link or look up device code, and records of what that cost."""
    return names.match(_LOADS_CODE) | is_loading_cost(names)


def is_loading_cost(names: Texts) -> pl.Series:
    """Which records of overhead are about loading code."""
    return names.match(_LOADING_COST)


def is_own_cost(names: Texts) -> pl.Series:
    """Which records of overhead are the program's own cost, not the profiler's."""
    return is_loading_cost(names) | names.match(_OTHER_OWN_COST)
