"""Comparisons, histories and many ranks: as a screen, as Markdown, as SARIF."""
