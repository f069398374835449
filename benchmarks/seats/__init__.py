"""Learning and cost with several seats."""
