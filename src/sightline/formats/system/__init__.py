"""Traces of a whole system: LTTng's CTF, Perfetto, perf trace."""
