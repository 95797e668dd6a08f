"""Tools of high-performance computing: Score-P's OTF2, HPCToolkit, Caliper, TAU."""
