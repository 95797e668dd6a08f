"""Kernels that could be shorter, or need not run at all."""

from sightline.core.registry import Subject

SUBJECT = Subject("kernels", "Kernels", needs=("device_ops", "stack_weights"), in_steps=True)
