"""The program that loads a submission and answers calls. It runs in a sandbox; here it is only read as a text.

The submission shares its interpreter and may forge every line of it. So the lines speak of the submission alone, what
would be right is not here, and the reader believes nothing: `envs.code.grading.split_grading` decides.
"""

import json
import os
import sys
import types

DEPTH = 90  # a little less than the host reads


def answer(sources, function, calls):
    """Print how loading ended, then one line per call; the first of `sources` that compiles is the submission."""
    lines = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)

    def tell(kind, value):
        lines.write(json.dumps([kind, value]) + "\n")
        lines.flush()

    found = load(sources, function, tell)
    for given, named in calls if found else ():
        try:
            value = tagged(found(*given, **named))
        except BaseException as fault:
            tell("raised", told(fault))
        else:
            tell("value", value)
    os._exit(0)


def load(sources, function, tell):
    """The submission's function, or None where there is none."""
    code, faults = None, []
    for source in sources:
        try:
            code = compile(source, "submission.py", "exec")
            break
        except Exception as fault:
            faults.append(told(fault))
    if code is None:
        tell("unread", faults[0])
        return None
    module = sys.modules["submission"] = types.ModuleType("submission")
    try:
        exec(code, module.__dict__)
        if function not in module.__dict__:
            tell("broken", lacking(module, function))
            return None
        found = module.__dict__[function]
        if not callable(found):
            raise TypeError(f"{function} is no function")
    except BaseException as fault:
        tell("broken", told(fault))
        return None
    tell("loaded", "")
    return found


def lacking(module, function):
    """What a program without the function defines instead."""
    kinds = types.FunctionType, type
    names = [
        name
        for name, one in module.__dict__.items()
        if isinstance(one, kinds) and one.__module__ == module.__name__ and name == one.__name__
    ]
    return f"the program defines no function `{function}`" + (f", but `{'`, `'.join(names[:3])}`" if names else "")


def told(fault):
    """An exception in one line."""
    try:
        return f"{type(fault).__name__}: {fault}"[:200]
    except BaseException:
        return "an exception that cannot be told"


def tagged(value, depth=0):
    """A value in the form that `sandboxes.json_values` reads. Subclasses of plain types become those types."""
    if depth > DEPTH:
        raise ValueError(f"a value nested more than {DEPTH} deep")
    if value is None or value is True or value is False:
        return value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if abs(number) < 1 << 53 else {"int": hex(number)}
    if isinstance(value, float):
        real = float.__float__(value)
        return real if real - real == 0 else {"float": repr(real)}
    if isinstance(value, complex):
        return {"complex": [tagged(value.real), tagged(value.imag)]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {"dict": [[tagged(key, depth + 1), tagged(one, depth + 1)] for key, one in dict.items(value)]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            members = [tagged(one, depth + 1) for one in kind.__iter__(value)]  # type: ignore[arg-type]
            return members if kind is list else {kind.__name__: members}
    raise TypeError(f"a value of type {type(value).__name__} is no plain data")
