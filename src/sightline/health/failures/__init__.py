"""Failures over time: incidents and their causes, rates with intervals, what a job must expect."""
