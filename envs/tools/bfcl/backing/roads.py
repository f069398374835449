"""The cities of VehicleControlAPI along one road. Five zip codes and two distances occur in the files."""

from __future__ import annotations

from typing import NamedTuple


class City(NamedTuple):
    """A city's name, its zip code, and its place along the road in km."""

    name: str
    zipcode: str
    place: float


CITIES = (
    City("San Francisco", "94016", 0.0),
    City("Sunset Valley", "66083", 260.0),
    City("Maplecrest", "56152", 540.0),
    City("Shadowridge", "17236", 790.0),
    City("Rivermist", "83214", 980.0),
    City("Pinehaven", "58473", 1130.0),
    City("Silverpine", "62947", 1310.0),
    City("Willowbend", "71920", 1480.0),
    City("Stonebrook", "74532", 1730.0),
    City("Crescent Hollow", "38541", 1960.0),
    City("Oakendale", "47329", 2240.0),
    City("Greenfield", "29175", 2410.0),
    City("Autumnville", "84610", 2630.0),
)


def cities_between(first: City, second: City) -> list[str]:
    """Return the names of the cities between two, in the order of the road."""
    low, high = sorted((first.place, second.place))
    return [city.name for city in CITIES if low < city.place < high]
