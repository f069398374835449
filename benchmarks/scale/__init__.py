"""A simulator of schedules: the product's own scheduler, with engines, episodes and a trainer that only take time."""
