"""Small Python projects whose modules import each other."""

from envs.code.repo_tools.projects.pair import PAIRS, pair
from envs.code.repo_tools.projects.places import CLOCK, ROADS, WALK
from envs.code.repo_tools.projects.project import Loaded, Modules, Project, Raised
from envs.code.repo_tools.projects.texts import CODES, SERIES, WORDS
from envs.code.repo_tools.projects.trade import LEDGER, SHOP, STORE

__all__ = ["PAIRS", "PROJECTS", "Loaded", "Modules", "Project", "Raised", "pair"]

PROJECTS = (SHOP, STORE, LEDGER, WALK, CLOCK, ROADS, WORDS, CODES, SERIES)
