"""One file per panel: a constant `PANEL` and a function `data`. Being here is the registration."""
