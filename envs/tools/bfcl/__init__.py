"""The Berkeley Function-Calling Leaderboard from its files: tasks, schemas, and the official comparison of calls."""
