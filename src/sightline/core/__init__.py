"""What everything stands on: the model of a run, intervals, units, texts. Knows no subject."""
