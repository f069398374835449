"""The journal of tickets: what was sampled between two checkpoints of a run, on disk."""
