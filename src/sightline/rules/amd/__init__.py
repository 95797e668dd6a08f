"""What bounds a kernel that rocprof-compute profiled."""

from sightline.registry import OF_KERNELS, Family

FAMILY = Family("amd", "Kernels profiled on AMD", share_of=OF_KERNELS)
