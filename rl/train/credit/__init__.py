"""What a run measures about credit, and what it suggests of that."""
