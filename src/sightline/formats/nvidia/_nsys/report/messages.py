"""The messages of a report that are not events: declared fields, as far as they are used."""

from __future__ import annotations

from sightline.core.protobuf import declare_messages

MESSAGES = declare_messages(
    """
Sections: 1 sections []Section
Section: 1 name text, 2 offset uint, 3 size uint
Positions: 1 codec text, 2 strings uint, 3 payload_schemas uint
Counts: 1 events uint, 3 strings uint, 5 thread_names uint, 9 codec text
About: 6 version text, 7 product text
Strings: 1 strings []bytes, 2 streams []Stream
Stream: 1 global_pid uint, 2 file_name uint, 3 content uint
Session: 1 devices []Device, 2 options Options, 16 clocks Clocks, 17 start int, 18 stop int
Device: 1 name text, 2 properties Properties, 3 global_vid uint
Properties: 1 properties []Property
Property: 1 number uint, 2 value bytes
Options: 9 host text, 26 launch []Launch
Launch: 10 command text, 11 arguments []text, 12 folder text, 30 environment []Variable
Variable: 1 name text, 2 value text
Clocks: 1 offsets []Offset
Offset: 1 source uint, 2 target uint, 5 offset text
Conversion: 1 clocks ClockList, 2 pairs PairList
ClockList: 1 clocks []Clock
Clock: 1 guid bytes, 2 kind uint
PairList: 1 pairs []Pair
Pair: 1 source bytes, 2 target bytes, 4 first Point
Point: 1 source int, 2 target int
Nics: 1 nics []Nic
Nic: 1 number uint, 2 name text, 3 device uint, 4 vendor uint, 5 link uint, 6 guid uint
ThreadNames: 1 names []ThreadName
ThreadName: 2 name uint, 3 priority int, 4 global_tid uint
Hardware: 1 machines []Machine, 14 contexts []Context, 15 streams []CudaStream
Machine: 1 vm_id uint, 2 devices Devices
Devices: 7 gpus []Gpu, 9 cuda_devices []CudaDevice
CudaDevice: 1 gpu uint, 2 cuda uint, 3 pid uint
Context: 1 null_stream uint, 2 hw uint, 3 vm uint, 4 pid uint, 5 device uint, 6 context uint,
    7 parent uint, 8 is_green uint
CudaStream: 1 stream uint, 2 hw uint, 3 vm uint, 4 pid uint, 5 context uint, 6 priority uint,
    7 flag uint
Gpu: 1 id uint, 2 name text, 3 busLocation text, 4 isDiscrete uint, 5 uuid text, 6 luid uint,
    7 chipName text, 9 pwGpuId uint, 10 l2CacheSize uint, 11 totalMemory uint,
    12 memoryBandwidth uint, 13 clockRate uint, 14 smCount uint, 15 cuDevice uint,
    16 ctxswDevPath text, 17 ctrlDevPath text, 21 revision uint, 22 nodeMask uint,
    23 constantMemory uint, 24 maxIPC uint, 25 maxRegistersPerBlock uint,
    26 maxShmemPerBlock uint, 27 maxShmemPerBlockOptin uint, 28 maxShmemPerSm uint,
    29 maxRegistersPerSm uint, 30 threadsPerWarp uint, 31 asyncEngines uint,
    32 maxWarpsPerSm uint, 33 maxBlocksPerSm uint, 34 maxThreadsPerBlock uint,
    35 maxBlockDimX uint, 36 maxBlockDimY uint, 37 maxBlockDimZ uint, 38 maxGridDimX uint,
    39 maxGridDimY uint, 40 maxGridDimZ uint, 41 computeMajor uint, 42 computeMinor uint,
    43 smMajor uint, 44 smMinor uint
PayloadSchemas: 3 processes []ProcessSchemas
ProcessSchemas: 1 global_pid uint, 2 schemas []Schema, 3 records []Record
Schema: 1 id uint, 2 type uint, 4 entries []Entry, 5 name text, 6 size uint
Entry: 1 type uint, 2 flags uint, 3 offset uint, 7 name text
Record: 1 time int, 2 domain uint, 3 schema uint, 4 payload bytes
    """
)
