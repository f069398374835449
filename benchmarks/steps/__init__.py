"""Steps per second of CPU without a model: of games and sums, of tools, and of pages."""
