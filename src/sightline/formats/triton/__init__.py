"""Triton: Proton's profiles, and what tritonparse logs of compilations."""
