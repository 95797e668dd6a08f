"""Programs of the lab as tests/worlds plays them, and a model of what a GPU counts in a kernel."""
