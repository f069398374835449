"""Environments of other projects, as `--env SCHEME:NAME`: Gymnasium, gem, verifiers, OpenEnv. See docs/adapters.md.

No module here imports its foreign package before an environment of it is made. The way out for TRL is here, too.
"""

from envs.adapters.trl import environment_class, rows

__all__ = ["environment_class", "rows"]
