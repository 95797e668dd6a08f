"""Kernels that could be shorter, or need not run at all."""

from sightline.registry import Family

FAMILY = Family("kernels", "Kernels")
