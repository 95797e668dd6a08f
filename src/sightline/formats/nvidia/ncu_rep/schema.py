"""The messages of a report: the fields that are read, by number.

The vendor documents the format and ships its message definitions with the tool
(extras/FileFormat, Nsight Compute 2024.1). RelocationData and the names of ProfilerSection are not
described there in a form that could be cited: they were found by decoding real reports.
Fields that are not listed, as those of newer tools, are skipped.
"""

from __future__ import annotations

from sightline.core.protobuf import declare_messages

MESSAGES = declare_messages(
    """
FileHeader: 1 Version uint
BlockHeader: 1 NumSources uint, 2 NumResults uint, 3 SessionDetails Session, 4 StringTable
    Strings, 5 PayloadSize uint, 6 Process Process, 7 NumRangeResults uint, 8 NumCmdlistResults
    uint, 9 NumGraphResults uint
Process: 1 ProcessID uint, 2 Hostname text, 3 ProcessName text
Strings: 1 Strings []text
Session: 1 ProcessID uint, 2 CreationTime uint, 4 TargetSystemInfo System, 6 DeviceAttributes
    []Device, 8 VersionInfo []Version, 10 ProfilerSettings Settings
System: 1 OSName text, 3 Processor text, 5 ComputerName text
Version: 1 Provider text, 2 Version text
Settings: 8 ClockControlMode text, 11 ReplayMode text
Device: 1 ID uint, 2 Name text, 3 Attributes []Attribute
Attribute: 1 Name text, 2 Value Value
Metric: 1 NameId uint, 2 Value Value, 3 Instances []Instance
Instance: 1 CorrelationId Value, 2 Value Value
Value: 1 StringValue text, 2 FloatValue float, 3 DoubleValue double, 4 Uint32Value uint, 5
    Uint64Value uint
Clock: 1 RequestedLock bool, 2 ExecutedLocked bool
Triple: 1 X uint, 2 Y uint, 3 Z uint
Reference: 1 Reference uint
Source: 1 Reference uint, 2 Code text, 4 Binary bytes, 5 SassLevel uint, 6 SMRevision uint, 8
    SourceFiles SourceFiles, 9 RelocationData Relocations
SourceFiles: 1 Files []SourceFile
SourceFile: 1 FileName text, 2 Content text
Relocations: 1 Functions []Relocation
Relocation: 1 Name text, 2 Address uint, 3 Index uint
Kernel: 1 ThreadID uint, 2 APICallID uint, 5 MangledName text, 6 FunctionName text, 7
    DemangledName text, 10 GridSize Triple, 11 BlockSize Triple, 13 MetricResults []bytes, 14
    CreationTime uint, 15 Source Reference, 17 Sections []Section, 19 RuleResults []Rule, 20
    UnsupportedDevice bool, 21 Nvtx Nvtx, 22 ContextID uint, 23 StreamID uint, 25 ClockStatus
    Clock, 28 CpuStack CpuStack
Range: 1 ThreadID uint, 2 APICallID uint, 4 MetricResults []bytes, 5 CreationTime uint, 7
    Sections []Section, 9 UnsupportedDevice bool, 10 Nvtx Nvtx, 11 ContextID uint, 12
    ClockStatus Clock, 14 CpuStack CpuStack
Cmdlist: 1 ThreadID uint, 2 APICallID uint, 4 MetricResults []bytes, 5 CreationTime uint, 7
    Sections []Section, 9 UnsupportedDevice bool, 10 Nvtx Nvtx, 11 ContextID uint, 12 StreamID
    uint, 13 ClockStatus Clock, 16 CpuStack CpuStack, 18 DisplayName text, 21 RuleResults []Rule
Graph: 1 ThreadID uint, 2 APICallID uint, 4 MetricResults []bytes, 5 CreationTime uint, 7
    Sections []Section, 9 UnsupportedDevice bool, 10 Nvtx Nvtx, 11 ContextID uint, 12 StreamID
    uint, 13 ClockStatus Clock, 16 CpuStack CpuStack
Section: 1 Identifier text, 2 DisplayName text
Rule: 1 Identifier text, 2 DisplayName text, 3 Body RuleBody, 4 SectionIdentifier text, 5
    SourceMarkers []Marker
RuleBody: 1 Items []RuleItem
RuleItem: 1 Message RuleMessage, 8 FocusMetrics []Focus, 10 Speedup Speedup
RuleMessage: 1 Message text, 2 Type uint, 3 Id int, 4 Name text
Speedup: 1 SpeedupType uint, 2 Value double
Focus: 1 MessageId int, 2 MetricName text, 3 MetricValue double, 4 Severity uint, 5 Info text
Marker: 1 Kind uint, 2 LineNumber uint, 3 Address uint, 4 Tooltip text, 5 Type uint, 6 FileName
    text
Nvtx: 1 Domains []NvtxDomain, 2 Threads []NvtxThread
NvtxDomain: 1 Id uint, 2 Name text
NvtxThread: 1 TID uint, 2 PushPopDomains []NvtxStack
NvtxStack: 1 Id uint, 3 Stack []NvtxRange
NvtxRange: 1 Name text
CpuStack: 1 Frames []CpuFrame
CpuFrame: 1 ModuleName text, 2 PC uint, 3 FileName text, 4 FuncName text, 5 Line uint
"""
)
RESULT_KINDS = (
    ("NumResults", "Kernel", "kernel"),
    ("NumRangeResults", "Range", "range"),
    ("NumCmdlistResults", "Cmdlist", "command list"),
    ("NumGraphResults", "Graph", "graph"),
)
