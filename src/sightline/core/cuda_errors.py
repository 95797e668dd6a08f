"""What calls of CUDA's runtime and driver return where they fail.

The numbers of the runtime are those of the driver from 100 on (driver_types.h, cudaError; cuda.h,
CUresult); HIP's are the same for those that both have (hip_runtime_api.h, hipError_t).
"""

from __future__ import annotations

# What a program means to hear, or cannot help: not ready yet, peer access that is there already,
# a context or a runtime that has ended before a library cleans up.
HARMLESS = frozenset({0, 4, 600, 704, 705, 709})
# From these on the context is lost: each later call returns the same (CUDA C++ Programming Guide,
# "Error Checking").
STICKY = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719})

_NAMES = {
    1: "invalid value",
    2: "out of memory",
    3: "not initialized",
    9: "invalid configuration",
    13: "invalid symbol",
    35: "the driver is too old",
    98: "invalid device function",
    100: "no device",
    101: "invalid device",
    200: "invalid image",
    201: "invalid context",
    209: "no kernel image for this device",
    214: "uncorrectable ECC error",
    218: "invalid PTX",
    222: "PTX of a newer toolchain than the driver's",
    301: "file not found",
    400: "invalid handle",
    500: "not found",
    700: "illegal address",
    701: "out of resources for the launch",
    702: "the launch timed out",
    710: "an assertion failed on the device",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "launch failure",
    720: "cooperative launch too large",
    801: "not supported",
    999: "unknown error",
}


def name_error(code: int) -> str:
    """An error's number with what it means: '700 (illegal address)'."""
    return f"{code} ({_NAMES[code]})" if code in _NAMES else str(code)
