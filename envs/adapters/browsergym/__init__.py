"""Tasks of BrowserGym as environments of messages: `browsergym:ID`."""

from envs.adapters.browsergym.browsergym_env import BrowserGymEnv

__all__ = ["BrowserGymEnv"]
