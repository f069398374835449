"""`python -m rl.evaluate`: play held-out tasks and report success with intervals."""
