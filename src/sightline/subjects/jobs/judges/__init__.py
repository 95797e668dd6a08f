"""What is looked for in a job, a function of each rule: from a job to a verdict, or None.

None: the question does not arise, as that for idle GPUs of a job without one.
"""
