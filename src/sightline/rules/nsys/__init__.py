"""What the vendor's own rules list, under their names."""

from sightline.registry import Family

FAMILY = Family("nsys", "Rules of nsys analyze")
