"""Small Python projects whose modules import each other."""

from envs.code.projects.pair import PAIRS, pair
from envs.code.projects.places import CLOCK, ROADS, WALK
from envs.code.projects.project import Loaded, Modules, Project, Raised
from envs.code.projects.texts import CODES, SERIES, WORDS
from envs.code.projects.trade import LEDGER, SHOP, STORE

__all__ = ["PAIRS", "PROJECTS", "Loaded", "Modules", "Project", "Raised", "pair"]

PROJECTS = (SHOP, STORE, LEDGER, WALK, CLOCK, ROADS, WORDS, CODES, SERIES)
