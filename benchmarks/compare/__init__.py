"""Methods against each other: what a comparison is, which there are, and how its runs are made and read."""
