"""Damaged recordings: what `sightline.testing` offers to everyone, all of it in a campaign."""

from functools import partial

from sightline.testing import survive_damage as _survive_damage
from support.campaigns import CAMPAIGNS

survive_damage = partial(_survive_damage, thorough=CAMPAIGNS)
