"""Worker processes that hold environments: `--workers N`."""
