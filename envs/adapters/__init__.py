"""Environments of other projects, as `--env SCHEME:NAME`: Gymnasium, gem, verifiers, OpenEnv. See docs/adapters.md.

No module here imports its foreign package before an environment of it is made.
"""
