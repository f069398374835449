"""Games in which players talk to each other: what they want or are is known to themselves only."""
