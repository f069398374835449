"""Models that compute as if they were of a lower precision."""
