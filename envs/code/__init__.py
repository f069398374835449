"""Environments in which a policy writes or repairs programs, or works in a shell or a repository."""
