"""Single pages with one kind of control: the smallest tasks of the family."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.widgets.choices import press, radio, tick
from envs.web.sites.widgets.forms import contact, login, region
from envs.web.sites.widgets.lists import cheapest, find
from envs.web.sites.widgets.notes import delete, reorder
from envs.web.sites.widgets.values import pick_date, settings
from envs.web.sites.widgets.views import attach, tabs, wizard
from envs.web.web_env import WebEnv


class Widgets(WebEnv):
    """Use one control of a web page: press, tick, choose, type, pick a date, sort, reorder, attach.

    Observation: the goal and the first page as text, then after each reply the page again; in short style the goal
    stands below the page, each time. In full style the instructions come first, and an element is a line such as `[3]
    button "Save"`; in short style `[3]b Save`, with `+` after the letter for checked, `!` for invalid and `-` for
    disabled. `view=screenshot` and `view=marks` add pictures, and tools for points of them: click_at, type_at,
    scroll_at, drag.
    Action: calls of tools, native or as JSON on the last line; all calls of a reply are made, in order, but none on an
    element of a page that an earlier one has changed. In short style a line of words: `click 3`, `type 4 Ada Abel`,
    `select 5 Large`, `stop`, `impossible`; in place of its number an element may be called by a name that no other of
    the page has: `click Save`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: the page's data are what the goal asks
    for, and nothing else has changed. `answer`: the episode was ended in the right way, by stop, or by
    report_impossible where the goal cannot be reached.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 25 turns, when the data are judged as
    they are.
    Kinds: press, tick, radio, login, contact, region (selects that depend on each other), date, settings, find, table,
    delete, reorder, tabs, attach, wizard. About a tenth of press, find and delete cannot be reached.
    Arguments: `kind`; `level`, 1 to 3, or 0 for a gentler page of press (3 buttons), tick (one of 3 boxes), radio (3
    options), login (2 signs of password), settings (one), find (3 documents), delete (2 notes), reorder (3 notes), tabs
    (2 signs of code) and attach (2 files a folder), which is for other kinds as level 1; `engine`, "dom" or "chromium";
    `view`; `picture_width`; `points`, "pixels" or "thousandths" of a picture; `max_chars` of a page that are shown at
    once; `browser`, the program; `headed`, with its window.
    Splits: drawn from seeds; no goal on the same data is in two splits. In short style, which has one wording of each
    goal, small pages recur: of radio, region, tabs and attach most openings of "test" are in "train" too.
    State: a digest of the data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Widgets-v0"
    splits_by_opening = False  # a folder's files, for instance, are out of sight at first
    kinds: ClassVar = {
        "press": press,
        "tick": tick,
        "radio": radio,
        "login": login,
        "contact": contact,
        "region": region,
        "date": pick_date,
        "settings": settings,
        "find": find,
        "table": cheapest,
        "delete": delete,
        "reorder": reorder,
        "tabs": tabs,
        "attach": attach,
        "wizard": wizard,
    }
    purpose = "Reach a goal on a small web page by acting on its elements."
    max_turns = 25
