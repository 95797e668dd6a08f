"""What a panel of the page is, and the pieces that panels are made of."""
