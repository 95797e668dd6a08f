"""The profiling lab: exercises that are slow for one reason, recorded before and after the fix."""
