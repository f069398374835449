"""Airports, fares and currencies of TravelAPI. Some occur in the files; the rest is invented."""

from __future__ import annotations

import re
from datetime import date

from envs.tools.bfcl.backing.backing import Result, refuse

# The nearest airport to each city that the documentation names. The order is that of the list of all airports.
AIRPORTS = {
    "Rivermist": "RMS",
    "Stonebrook": "SBK",
    "Maplecrest": "MPC",
    "Silverpine": "SVP",
    "Shadowridge": "SHD",
    "London": "LHR",
    "Paris": "CDG",
    "Sunset Valley": "SSV",
    "Oakendale": "OKD",
    "Willowbend": "WLB",
    "Crescent Hollow": "CRH",
    "Autumnville": "ATV",
    "Pinehaven": "PHV",
    "Greenfield": "GFD",
    "San Francisco": "SFO",
    "Los Angeles": "LAX",
    "New York": "JFK",
    "Chicago": "ORD",
    "Beijing": "PEK",
    "Hong Kong": "HKG",
    "Rome": "CIA",
    "Tokyo": "HND",
    "Boston": "BOS",
}
_ZONES = {
    "west": ("SFO", "LAX"),
    "east": ("JFK", "ORD", "BOS"),
    "europe": ("LHR", "CDG", "CIA"),
    "asia": ("PEK", "HKG", "HND"),
}
ZONE_OF = {code: zone for zone, codes in _ZONES.items() for code in codes}  # all other airports are "local"
BASE_FARES = {  # in USD, economy, either way
    ("asia", "asia"): 350.0,
    ("asia", "east"): 1700.0,
    ("asia", "europe"): 1300.0,
    ("asia", "local"): 1800.0,
    ("asia", "west"): 1200.0,
    ("east", "east"): 220.0,
    ("east", "europe"): 1100.0,
    ("east", "local"): 420.0,
    ("east", "west"): 400.0,
    ("europe", "europe"): 150.0,
    ("europe", "local"): 1500.0,
    ("europe", "west"): 1400.0,
    ("local", "local"): 120.0,
    ("local", "west"): 280.0,
    ("west", "west"): 160.0,
}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
CLASS_FACTORS = {"economy": 1.0, "business": 2.0, "first": 5.0}

# Units of each currency for one USD. Those of RMB, GBP and EUR follow from the gold answers.
CURRENCIES = {
    "USD": 1.0,
    "RMB": 7.0,
    "EUR": 0.8,
    "JPY": 110.0,
    "GBP": 0.7,
    "CAD": 1.3,
    "AUD": 1.4,
    "INR": 70.0,
    "RUB": 75.0,
    "BRL": 5.0,
    "MXN": 20.0,
}


def fare(start: str, goal: str, travel_class: str) -> float:
    """Return the fare in USD between two different airports. Raises KeyError for an unknown class."""
    zones = sorted(ZONE_OF.get(code, "local") for code in (start, goal))
    return BASE_FARES[zones[0], zones[1]] * CLASS_FACTORS[travel_class]


def flight_fault(start: str, goal: str, day: str, travel_class: str) -> Result | None:
    """Return the refusal of a flight that does not exist; None for one that does."""
    codes = list(AIRPORTS.values())
    for code in (start, goal):
        if code not in codes:
            return refuse(f"airport {code[:20]!r} is not known; `list_all_airports` has all codes")
    if start == goal:
        return refuse("the flight ends where it begins")
    if as_date(day) is None:
        return refuse(f"date {day[:40]!r} is not of the form YYYY-MM-DD")
    if travel_class not in CLASS_FACTORS:
        return refuse(f"class {travel_class[:20]!r} is not one of {', '.join(CLASS_FACTORS)}")
    return None


def as_date(text: str) -> date | None:
    """Read a date of the form YYYY-MM-DD; None for anything else."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None
