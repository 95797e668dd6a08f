"""What bounds a kernel that Nsight Compute profiled."""

from sightline.registry import OF_KERNELS, Family

FAMILY = Family("ncu", "Profiled kernels", share_of=OF_KERNELS)
