"""Small Python projects whose modules import each other."""

from envs.code.repo_tools.projects.pair import PAIR_COUNT, build_pair
from envs.code.repo_tools.projects.places import CLOCK, ROADS, WALK
from envs.code.repo_tools.projects.project import CallError, LoadedProject, Modules, Project
from envs.code.repo_tools.projects.texts import CODES, SERIES, WORDS
from envs.code.repo_tools.projects.trade import LEDGER, SHOP, STORE

__all__ = ["PAIR_COUNT", "PROJECTS", "CallError", "LoadedProject", "Modules", "Project", "build_pair"]

PROJECTS = (SHOP, STORE, LEDGER, WALK, CLOCK, ROADS, WORDS, CODES, SERIES)
