"""The report as one offline HTML file: a frame, and one file per panel."""
