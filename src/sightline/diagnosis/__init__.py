"""From what rules say to one list: builder, price, rank, and rules that people write."""
