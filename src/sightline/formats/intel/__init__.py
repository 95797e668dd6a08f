"""Intel: unitrace, onetrace, VTune, iaprof."""
