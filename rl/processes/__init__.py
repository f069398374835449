"""Processes that a run starts beside itself, and the sockets to them: workers, sampling engines, trainers."""
