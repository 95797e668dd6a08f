"""What a run is: the declared tables, their columns, the store, and the run itself."""
