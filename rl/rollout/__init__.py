"""Play episodes: the episode coroutine, the runner that calls environments, retries, deadlines, transcripts."""
