"""Intel: unitrace, onetrace, VTune, iaprof, GTPin."""
