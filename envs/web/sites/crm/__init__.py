"""A register of customers: search, details, notes, stages, owners."""
