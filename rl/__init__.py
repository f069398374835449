"""Play, credit, learn and evaluate: the multi-turn reinforcement-learning core."""
