"""The functions that are probed, and which of their arguments says what.

Signatures: CUDA Runtime API and CUDA Driver API 13.0 (cuda_runtime_api.h, cuda.h and
crt/host_runtime.h), HIP 7.0 (hip_runtime_api.h), NCCL 2.29 (nccl.h), whose names RCCL has, too.
What a program calls while it waits (cudaEventQuery, cudaStreamQuery) or before each launch
(cudaSetDevice, cudaGetLastError) is not probed: it would cost more than it tells.

A function's words stand in the order of core/model/probe_file.py, each as the number of an argument
(from 0; from 6 on they are on the stack), as '=3' for a number that the function's name says, or as
'-' for none. What follows is optional: '*4' multiplies the bytes by an argument, '<<2' shifts them,
'&' says that the first argument points to where the result goes, 'text2' that argument 2 is a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sightline.core.model.probe_file import KINDS

# How arguments become words; by their number in native/probe/calls.bpf.c.
SHAPES = ("select", "grid by value", "grid by number", "runtime config", "driver config")
GRID_BY_VALUE, GRID_BY_NUMBER, CONFIG_RUNTIME, CONFIG_DRIVER = range(1, 5)
READS_STACK, RETURNS_POINTER, RETURNS_NOTHING = 1, 4, 8
NO_WORD, CONSTANT, NO_FACTOR = 15, 16, 255
# What newer versions and per-thread default streams append: cuda.h, cuda_runtime_api.h.
_ENDINGS = ("", "_ptsz", "_ptds", "_v2", "_v2_ptsz", "_v2_ptds")

_RUNTIME = """
launch      cudaLaunchKernel            grid by value
launch      cudaLaunchCooperativeKernel grid by value
launch      cudaLaunchKernelExC         runtime config
graph       cudaGraphLaunch             0 - - - 1
copy        cudaMemcpy                  0 1 2 3 -
copy        cudaMemcpyAsync             0 1 2 3 4
copy        cudaMemcpy2D                0 2 4 6 - *5
copy        cudaMemcpy2DAsync           0 2 4 6 7 *5
copy        cudaMemcpyToSymbol          0 1 2 4 -
copy        cudaMemcpyToSymbolAsync     0 1 2 4 5
copy        cudaMemcpyFromSymbol        0 1 2 4 -
copy        cudaMemcpyFromSymbolAsync   0 1 2 4 5
copy        cudaMemcpyPeer              0 2 4 =5 -
copy        cudaMemcpyPeerAsync         0 2 4 =5 5
other       cudaMemcpy3D                0 - - - -
other       cudaMemcpy3DAsync           0 1 - - -
fill        cudaMemset                  0 1 2 - -
fill        cudaMemsetAsync             0 1 2 - 3
fill        cudaMemset2D                0 2 3 - - *4
fill        cudaMemset2DAsync           0 2 3 - 5 *4
allocate    cudaMalloc                  0 1 - - - &
allocate    cudaMallocAsync             0 1 - - 2 &
allocate    cudaMallocFromPoolAsync     0 1 - 2 3 &
allocate    cudaMallocManaged           0 1 2 - - &
allocate    cudaMallocHost              0 1 - - - &
allocate    cudaHostAlloc               0 1 2 - - &
free        cudaFree                    0 - - - -
free        cudaFreeAsync               0 - - - 1
free        cudaFreeHost                0 - - - -
wait        cudaDeviceSynchronize       - - - - -
wait        cudaStreamSynchronize       0 - - - 0
wait        cudaEventSynchronize        0 - - - -
other       cudaGraphInstantiate        1 - - - -
other       cudaGraphInstantiateWithFlags 1 - - - -
name        __cudaRegisterFunction      0 1 - - - text3
name        __cudaGetKernel             0 1 - - - &
name        cudaGetKernel               0 1 - - - &
name        cudaGetFuncBySymbol         0 1 - - - &
name        cudaLibraryGetKernel        0 1 - - - & text2
launch      hipLaunchKernel             grid by value
launch      hipExtLaunchKernel          grid by value
launch      hipLaunchCooperativeKernel  grid by value
launch      hipLaunchKernelExC          runtime config
launch      hipModuleLaunchKernel       grid by number
launch      hipDrvLaunchKernelEx        driver config
graph       hipGraphLaunch              0 - - - 1
copy        hipMemcpy                   0 1 2 3 -
copy        hipMemcpyAsync              0 1 2 3 4
copy        hipMemcpyWithStream         0 1 2 3 4
copy        hipMemcpyHtoD               0 1 2 =1 -
copy        hipMemcpyDtoH               0 1 2 =2 -
copy        hipMemcpyDtoD               0 1 2 =3 -
copy        hipMemcpyHtoDAsync          0 1 2 =1 3
copy        hipMemcpyDtoHAsync          0 1 2 =2 3
copy        hipMemcpyDtoDAsync          0 1 2 =3 3
fill        hipMemset                   0 1 2 - -
fill        hipMemsetAsync              0 1 2 - 3
allocate    hipMalloc                   0 1 - - - &
allocate    hipMallocAsync              0 1 - - 2 &
allocate    hipMallocManaged            0 1 2 - - &
allocate    hipHostMalloc               0 1 2 - - &
free        hipFree                     0 - - - -
free        hipFreeAsync                0 - - - 1
free        hipHostFree                 0 - - - -
wait        hipDeviceSynchronize        - - - - -
wait        hipStreamSynchronize        0 - - - 0
wait        hipEventSynchronize         0 - - - -
name        __hipRegisterFunction       0 1 - - - text3
name        hipModuleGetFunction        0 1 - - - & text2
"""

_DRIVER = """
launch      cuLaunchKernel              grid by number
launch      cuLaunchCooperativeKernel   grid by number
launch      cuLaunchKernelEx            driver config
graph       cuGraphLaunch               0 - - - 1
copy        cuMemcpy                    0 1 2 =4 -
copy        cuMemcpyAsync               0 1 2 =4 3
copy        cuMemcpyHtoD                0 1 2 =1 -
copy        cuMemcpyDtoH                0 1 2 =2 -
copy        cuMemcpyDtoD                0 1 2 =3 -
copy        cuMemcpyHtoDAsync           0 1 2 =1 3
copy        cuMemcpyDtoHAsync           0 1 2 =2 3
copy        cuMemcpyDtoDAsync           0 1 2 =3 3
copy        cuMemcpyPeer                0 2 4 =5 -
copy        cuMemcpyPeerAsync           0 2 4 =5 5
fill        cuMemsetD8                  0 1 2 - -
fill        cuMemsetD8Async             0 1 2 - 3
fill        cuMemsetD16                 0 1 2 - - <<1
fill        cuMemsetD16Async            0 1 2 - 3 <<1
fill        cuMemsetD32                 0 1 2 - - <<2
fill        cuMemsetD32Async            0 1 2 - 3 <<2
allocate    cuMemAlloc                  0 1 - - - &
allocate    cuMemAllocAsync             0 1 - - 2 &
allocate    cuMemAllocFromPoolAsync     0 1 - 2 3 &
allocate    cuMemAllocManaged           0 1 2 - - &
allocate    cuMemAllocHost              0 1 - - - &
allocate    cuMemHostAlloc              0 1 2 - - &
free        cuMemFree                   0 - - - -
free        cuMemFreeAsync              0 - - - 1
free        cuMemFreeHost               0 - - - -
wait        cuCtxSynchronize            - - - - -
wait        cuStreamSynchronize         0 - - - 0
wait        cuEventSynchronize          0 - - - -
other       cuModuleLoad                - - - - -
other       cuModuleLoadData            - - - - -
other       cuModuleLoadDataEx          - - - - -
other       cuModuleLoadFatBinary       - - - - -
other       cuLibraryLoadData           - - - - -
name        cuModuleGetFunction         0 1 - - - & text2
name        cuLibraryGetKernel          0 1 - - - & text2
name        cuKernelGetFunction         0 1 - - - &
"""

_LIBRARY = """
collective  ncclAllReduce               2 3 4 5 6
collective  ncclReduce                  2 3 4 6 7
collective  ncclReduceScatter           2 3 4 5 6
collective  ncclAllGather               2 3 - 4 5
collective  ncclBroadcast               2 3 4 5 6
collective  ncclBcast                   1 2 3 4 5
collective  ncclAlltoAll                2 3 - 4 5
collective  ncclGather                  2 3 4 5 6
collective  ncclScatter                 2 3 4 5 6
collective  ncclSend                    1 2 3 4 5
collective  ncclRecv                    1 2 3 4 5
other       ncclGroupEnd                - - - - -
other       ncclCommInitRank            1 3 - - -
other       ncclCommInitRankConfig      1 3 - - -
other       ncclCommInitAll             1 - - - -
other       ncclCommSplit               0 1 2 - -
"""


@dataclass(frozen=True)
class Function:
    """A probed function, as the kernel's part is told of it."""

    name: str
    layer: str  # as in the table host_ops: runtime, driver or library
    kind: str  # as in core/model/probe_file.py
    shape: int
    words: tuple[int, ...]
    flags: int
    text: int
    factor: int
    shift: int

    @property
    def kind_number(self) -> int:
        """The kind as the kernel's part has it."""
        return KINDS.index(self.kind)


@cache
def list_functions() -> dict[str, Function]:
    """All functions by the symbols that they may have."""
    found = {}
    for layer, table in (("runtime", _RUNTIME), ("driver", _DRIVER), ("library", _LIBRARY)):
        for function in _parse_table(layer, table):
            # A `_v2` may follow a name that has the first version, too: their arguments are alike.
            for ending in _ENDINGS if layer != "library" else _ENDINGS[:1]:
                symbol = function.name + ending
                found[symbol] = Function(**{**vars(function), "name": symbol})
    return found


def _parse_table(layer: str, table: str) -> Iterator[Function]:
    for line in table.strip().splitlines():
        kind, name, rest = line.split(None, 2)
        if rest in SHAPES:
            shape = SHAPES.index(rest)
            flags = READS_STACK if "grid" in rest else 0
            yield Function(name, layer, kind, shape, (NO_WORD,) * 5, flags, 255, NO_FACTOR, 0)
            continue
        words = tuple(_parse_word(text) for text in rest.split()[:5])
        more = " ".join(rest.split()[5:])
        text = re.search(r"text(\d)", more)
        factor = re.search(r"\*(\d)", more)
        shift = re.search(r"<<(\d)", more)
        flags = RETURNS_POINTER if "&" in more else 0
        flags |= READS_STACK if any(6 <= word < NO_WORD for word in words) else 0
        # Registration of functions by the programs' own start-up code: void functions.
        flags |= RETURNS_NOTHING if name.startswith("__") and "Register" in name else 0
        yield Function(
            name, layer, kind, 0, words, flags,
            int(text[1]) if text else 255,
            int(factor[1]) if factor else NO_FACTOR,
            int(shift[1]) if shift else 0,
        )  # fmt: skip


def _parse_word(text: str) -> int:
    if text == "-":
        return NO_WORD
    return CONSTANT + int(text[1:]) if text.startswith("=") else int(text)
