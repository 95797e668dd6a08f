"""The timeline's data: every event of a run in lanes, as columns that pack small."""
