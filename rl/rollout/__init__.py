"""Episodes: the coroutine that plays one, the runner that calls environments, retries, deadlines, JSON lines."""
