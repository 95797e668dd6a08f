"""How values show themselves in notebooks: one file each, with a constant `DISPLAY`.

Its functions: `write_html`, `write_text`, `list_rows` and `make_chart`. HTML is one element without
script, with nothing loaded from elsewhere, in the report page's style, and names from recordings
are text in it.
"""
