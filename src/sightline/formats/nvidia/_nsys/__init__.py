"""The reader of Nsight Systems' exports and reports, which four importers share."""
