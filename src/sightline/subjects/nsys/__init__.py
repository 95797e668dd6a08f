"""The tables and rules of `nsys stats` and `nsys analyze`, under their names."""

from sightline.core.registry import Subject

SUBJECT = Subject("nsys", "Reports and rules of nsys")
