"""MathAPI: arithmetic, statistics, logarithms and units."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal, localcontext

from envs.tools.bfcl.backing.backing import Backing, Integer, Number, Numbers, Result, refuse
from envs.tools.tool import tool

MAX_PRECISION = 100  # digits
_PREFIXES = {"k": 1e3, "h": 1e2, "da": 1e1, "": 1.0, "d": 1e-1, "c": 1e-2, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_SI_BASES = ("m", "g", "l", "s", "A", "W", "J", "Pa", "Hz", "V")
_SI_UNITS = {prefix + base: (base, factor) for base in _SI_BASES for prefix, factor in _PREFIXES.items()}
_SI_UNITS["min"], _SI_UNITS["h"], _SI_UNITS["t"] = ("s", 60.0), ("s", 3600.0), ("g", 1e6)

# Each unit's quantity and its size in that quantity's SI unit.
_UNITS = {
    **{name: ("length", size) for name, size in (("m", 1.0), ("km", 1e3), ("cm", 1e-2), ("mm", 1e-3))},
    **{name: ("length", 0.0254) for name in ("in", "inch", "inches")},
    **{name: ("length", 0.3048) for name in ("ft", "foot", "feet")},
    **{name: ("length", 0.9144) for name in ("yd", "yard", "yards")},
    **{name: ("length", 1609.344) for name in ("mi", "mile", "miles")},
    **{name: ("mass", size) for name, size in (("kg", 1.0), ("g", 1e-3), ("mg", 1e-6))},
    **{name: ("mass", 0.45359237) for name in ("lb", "lbs", "pound", "pounds")},
    **{name: ("mass", 0.028349523125) for name in ("oz", "ounce", "ounces")},
    **{name: ("volume", size) for name, size in (("l", 1.0), ("liter", 1.0), ("liters", 1.0), ("ml", 1e-3))},
    **{name: ("volume", 3.785411784) for name in ("gal", "gallon", "gallons")},
    **{name: ("speed", size) for name, size in (("m/s", 1.0), ("km/h", 1 / 3.6), ("mph", 0.44704))},
}
_TEMPERATURES = ("celsius", "fahrenheit", "kelvin")


class MathAPI(Backing):
    """Functions of numbers. It has no state."""

    @tool
    def absolute_value(self, number: Number) -> Result:
        """The number without its sign."""
        return {"result": abs(float(number))}

    @tool
    def add(self, a: Number, b: Number) -> Result:
        """The sum of two numbers."""
        return _result(a + b)

    @tool
    def divide(self, a: Number, b: Number) -> Result:
        """The quotient of two numbers."""
        return refuse("division by zero") if b == 0 else _result(a / b)

    @tool
    def imperial_si_conversion(self, value: Number, unit_in: str, unit_out: str) -> Result:
        """Convert lengths, masses, volumes, speeds and temperatures."""
        source, target = unit_in.strip().lower(), unit_out.strip().lower()
        if source in _TEMPERATURES and target in _TEMPERATURES:
            return _result(_from_celsius(_to_celsius(value, source), target))
        for name, unit in ((unit_in, source), (unit_out, target)):
            if unit not in _UNITS and unit not in _TEMPERATURES:
                return refuse(f"unit {name[:20]!r} is not known")
        if source in _TEMPERATURES or target in _TEMPERATURES or _UNITS[source][0] != _UNITS[target][0]:
            return refuse(f"{source} and {target} measure different quantities")
        return _result(value * _UNITS[source][1] / _UNITS[target][1])

    @tool
    def logarithm(self, value: Number, base: Number, precision: Integer) -> Result:
        """The logarithm to a base, rounded to `precision` significant digits."""
        if value <= 0 or base <= 0 or base == 1:
            return refuse("a logarithm needs a value above 0 and a base above 0 that is not 1")
        if not 1 <= precision <= MAX_PRECISION:
            return refuse(f"precision must be between 1 and {MAX_PRECISION}")
        with localcontext() as context:
            context.prec = MAX_PRECISION + 20
            quotient = Decimal(value).ln() / Decimal(base).ln()
            context.prec = precision
            return _result(float(+quotient))

    @tool
    def max_value(self, numbers: Numbers) -> Result:
        """The largest of some numbers."""
        return _result(max(numbers)) if numbers else refuse("the list is empty")

    @tool
    def mean(self, numbers: Numbers) -> Result:
        """The arithmetic mean of some numbers."""
        return _result(math.fsum(numbers) / len(numbers)) if numbers else refuse("the list is empty")

    @tool
    def min_value(self, numbers: Numbers) -> Result:
        """The smallest of some numbers."""
        return _result(min(numbers)) if numbers else refuse("the list is empty")

    @tool
    def multiply(self, a: Number, b: Number) -> Result:
        """The product of two numbers."""
        return _result(a * b)

    @tool
    def percentage(self, part: Number, whole: Number) -> Result:
        """How many per cent of the whole a part is."""
        return refuse("the whole is zero") if whole == 0 else _result(part / whole * 100)

    @tool
    def power(self, base: Number, exponent: Number) -> Result:
        """A number to a power."""
        return _result(math.pow(base, exponent))

    @tool
    def round_number(self, number: Number, decimal_places: Integer = 0) -> Result:
        """A number rounded to decimal places."""
        return _result(round(float(number), max(-110, min(400, decimal_places))))

    @tool
    def si_unit_conversion(self, value: Number, unit_in: str, unit_out: str) -> Result:
        """Convert between SI units with prefixes, such as km and mm."""
        for unit in (unit_in, unit_out):
            if unit not in _SI_UNITS:
                return refuse(f"unit {unit[:20]!r} is not known")
        (base_in, size_in), (base_out, size_out) = _SI_UNITS[unit_in], _SI_UNITS[unit_out]
        if base_in != base_out:
            return refuse(f"{unit_in} and {unit_out} measure different quantities")
        return _result(value * size_in / size_out)

    @tool
    def square_root(self, number: Number, precision: Integer) -> Result:
        """The square root, rounded to `precision` significant digits."""
        if number < 0:
            return refuse("a negative number has no square root")
        if not 1 <= precision <= MAX_PRECISION:
            return refuse(f"precision must be between 1 and {MAX_PRECISION}")
        with localcontext() as context:
            context.prec = precision
            return _result(float(Decimal(number).sqrt()))

    @tool
    def standard_deviation(self, numbers: Numbers) -> Result:
        """The standard deviation of some numbers, all of the population."""
        return _result(statistics.pstdev(map(float, numbers))) if numbers else refuse("the list is empty")

    @tool
    def subtract(self, a: Number, b: Number) -> Result:
        """The difference of two numbers."""
        return _result(a - b)

    @tool
    def sum_values(self, numbers: Numbers) -> Result:
        """The sum of some numbers."""
        return _result(math.fsum(numbers)) if numbers else refuse("the list is empty")


def _result(value: float) -> Result:
    value = float(value)
    return {"result": value} if math.isfinite(value) else refuse("the result is too large")


def _to_celsius(value: float, unit: str) -> float:
    return {"celsius": value, "fahrenheit": (value - 32) / 1.8, "kelvin": value - 273.15}[unit]


def _from_celsius(value: float, unit: str) -> float:
    return {"celsius": value, "fahrenheit": value * 1.8 + 32, "kelvin": value + 273.15}[unit]
