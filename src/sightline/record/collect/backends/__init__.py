"""What records programs: a file for each backend, which declares one constant, BACKEND.

Being in this folder is the registration (sightline.core.registry). Modules whose names begin with
an underscore are shared parts.
"""
