"""The tables of `nsys stats` and `nsys analyze`, under their names."""

from sightline.registry import Family

FAMILY = Family("nsys", "Reports of nsys")
