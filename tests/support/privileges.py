"""What root may do beyond other users, taken away for a while: permissions of files then hold for root too."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_VERSION_3 = 0x20080522  # of the kernel's capability sets: two words of 32 bits each
_OVERRIDES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


@contextmanager
def permissions_hold() -> Iterator[None]:
    """Lets permissions of files hold for this thread also where it is root's; it stays the owner of root's files.

    Another user, which `os.seteuid` would make of it, could not import from a folder that only root may enter. The
    test is skipped for root where there are no such capabilities.
    """
    if os.geteuid() != 0:
        yield
        return
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        change, read = libc.capset, libc.capget
    except AttributeError:
        pytest.skip("permissions of files do not hold for root here")
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    assert read(ctypes.byref(header), sets) == 0
    before = sets[0].effective
    sets[0].effective = before & ~_OVERRIDES
    assert change(ctypes.byref(header), sets) == 0
    try:
        yield
    finally:
        sets[0].effective = before
        assert change(ctypes.byref(header), sets) == 0
