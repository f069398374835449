"""Runs tests on recorded answers, in a session of its own, where no submission ever is.

Here it is only read as a text; it becomes the session's first cell.
"""

import builtins
import importlib
import random
import sys


class Missing(BaseException):
    """The tests make a call that has no recorded answer."""


class Stopped(BaseException):
    """The submission did not come to this call."""


def record(setup, reference, function, tests, seed):
    """Say for each test what the reference raises in it, if anything, and list the calls that it gets.

    Also say whether a test drew random numbers, so that its calls depend on the seed.
    """
    results, is_random = [], False
    for test in tests:
        names = fresh(setup + "\n" + reference, test, seed)
        before = luck()
        right = names[function]
        calls: list = []

        def candidate(*given, right=right, calls=calls, **named):
            calls.append(copied((given, named)))
            return right(*given, **named)

        names[function] = candidate
        results.append((fault(test, names), calls))
        is_random = is_random or luck() != before
    return results, is_random


def examine(setup, function, tests, seed, scripts):
    """Say for each test what it raises, if anything, and the place and arguments of a call that has no answer.

    The seed is the one that the calls were recorded with. A script lists, in order, the arguments of calls with their
    answers: ((given, named), kind, value).
    """
    found = []
    for test, script in zip(tests, scripts, strict=True):
        rest = list(enumerate(script))
        missing: list = []

        def candidate(*given, rest=rest, script=script, missing=missing, **named):
            place, (call, *answer) = rest.pop(0) if rest else (len(script), (None,))
            now = (given, named)
            if call != now and repr(call) != repr(now):  # the latter holds where there is a NaN
                missing[:] = missing or [place, copied(now)]
                raise Missing
            return answered(*answer)

        names = fresh(setup, test, seed)
        names[function] = candidate
        found.append((fault(test, names), missing))
    return found


def fresh(setup, test, seed):
    """Make the names that the setup leaves anew, and seed the generators that tests of some data sets draw from.

    The setup and the test each begin with the same luck, whatever ran before them.
    """
    if "numpy" in setup + test:
        importlib.import_module("numpy.random")
    names = {"__name__": "tests"}
    reseed(seed)
    exec(compile(setup, "setup.py", "exec"), names)
    reseed(seed)
    return names


def reseed(seed):
    """Seed the global generators of `random` and, where it is loaded, NumPy."""
    random.setstate(random.Random(seed).getstate())
    if numpy := sys.modules.get("numpy.random"):
        numpy.set_state(numpy.RandomState(seed % 2**32).get_state())


def luck():
    """The states of the global generators, to compare them."""
    numpy = sys.modules.get("numpy.random")
    return random.getstate(), repr(numpy.get_state()) if numpy else ""


def fault(test, names):
    """Run a test; the exception that it raises in one word, or an empty text."""
    try:
        exec(compile(test, "test.py", "exec"), names)
    except BaseException as raised:
        return type(raised).__name__
    return ""


class NotPlain(TypeError):
    """The tests pass an object to the function."""


def copied(value):
    """Copy plain data, as it is now. NotPlain for any other."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return value
    if kind is dict:
        return {copied(key): copied(one) for key, one in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(copied, value))
    raise NotPlain(f"a value of type {kind.__name__} is no plain data")


def answered(kind, value):
    """Do what a recorded answer did: return, or raise something of the same kind."""
    if kind == "value":
        return value
    if kind == "stopped":
        raise Stopped
    found = getattr(builtins, value.partition(":")[0], None)
    raise (found if isinstance(found, type) and issubclass(found, Exception) else RuntimeError)(value)
