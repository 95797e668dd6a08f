"""Batch systems: Slurm's commands, Jobstats' summaries, ClusterCockpit's archives and databases."""
