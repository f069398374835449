"""`python -m rl.train`: one training run, its loop, its run folder and its cold start."""
