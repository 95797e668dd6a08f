"""AMD: rocprofv3, rocpd, the older rocprof, rocprof-compute, thread traces."""
