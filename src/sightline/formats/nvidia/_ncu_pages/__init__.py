"""What ncu prints or writes as CSV: records of its pages into tables."""
