"""The memory that a run needs: what it does, the estimate, and what is said of it."""
