"""Published data sets: which there are, where they lie, whether they are whole, how to get them."""
