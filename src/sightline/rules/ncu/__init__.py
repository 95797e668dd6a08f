"""What bounds a kernel that Nsight Compute profiled."""

from sightline.registry import Family

FAMILY = Family("ncu", "Profiled kernels", share_of="profiled kernel time")
