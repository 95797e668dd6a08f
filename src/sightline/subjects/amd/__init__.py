"""What bounds a kernel that rocprof-compute profiled."""

from sightline.core.registry import OF_KERNELS, Subject

SUBJECT = Subject(
    "amd", "Kernels profiled on AMD", share_of=OF_KERNELS, needs=("profiled_kernels",)
)
