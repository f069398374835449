"""Single pages with one kind of control: the smallest tasks of the family."""

from __future__ import annotations

from envs.web.sites.widgets.choices import press, radio, tick
from envs.web.sites.widgets.forms import contact, login, region
from envs.web.web_env import WebEnv


class Widgets(WebEnv):
    """Use one control of a web page: press, tick, choose, type, pick a date, sort, reorder, attach.

    Observation: the goal and the first page as text, then after each reply the page again. In full style the
    instructions come first, and an element is a line such as `[3] button "Save"`; in short style `[3]b Save`.
    Action: calls of tools, native or as JSON on the last line. In short style a line of words: `click 3`,
    `type 4 Ada Abel`, `select 5 Large`, `stop`, `answer 17.50`, `impossible`.
    """

    key = "web/Widgets-v0"
    kinds = {
        "press": press,
        "tick": tick,
        "radio": radio,
        "login": login,
        "contact": contact,
        "region": region,
    }
    purpose = "Reach a goal on a small web page by acting on its elements."
    max_turns = 25
