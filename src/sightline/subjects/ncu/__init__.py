"""What bounds a kernel that Nsight Compute profiled."""

from sightline.core.registry import OF_KERNELS, Subject

SUBJECT = Subject("ncu", "Profiled kernels", share_of=OF_KERNELS, needs=("profiled_kernels",))
