"""`python -m rl.evaluate`: play held-out tasks with a policy and report success rates with intervals."""
