"""Which groups are played, which of them an update takes, and what new weights mean for those in flight."""
