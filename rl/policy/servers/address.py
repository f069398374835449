"""The address of a server of vLLM, as `--engine-url` takes it. Imports neither torch nor an HTTP client."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

SERVED = ("vllm", "vllm:native")  # engines that a server can be
KEY_VARIABLE = "VLLM_API_KEY"


def server_url(text: str) -> str:
    """Check a flag that names a server and return its base URL, without a slash or `/v1` at its end.

    Raises `argparse.ArgumentTypeError` for anything else, or a URL with a password in it.
    """
    url = text.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_valid &= not (parts.query or parts.fragment or re.search(r"\s", url))
    except ValueError:
        is_valid = False
    if not is_valid:
        raise argparse.ArgumentTypeError("must be the URL of a server of vLLM, such as http://127.0.0.1:8000")
    if parts.username is not None:
        raise argparse.ArgumentTypeError(f"a name or a key would end up in the run's files; set {KEY_VARIABLE}")
    return url


def check_servers(urls: Sequence[str], *, engine: str, engines: int, devices: str, num_roles: int = 0) -> None:
    """Raise `ValueError` for servers that do not go with other flags: `--engine`, `--engines`, `--engine-devices`.

    `num_roles` is the number of policies with weights of their own, 0 if there is a single one.
    """
    if not urls:
        return
    flag = f"--engine-url {urls[0]}"
    if engine not in SERVED:
        raise ValueError(
            f"{flag}: a server of vLLM draws tokens by itself, unlike --engine {engine}; add --engine vllm"
        )
    for url in urls:
        try:
            is_base = server_url(url) == url
        except argparse.ArgumentTypeError as error:  # in a file of settings
            raise ValueError(f"--engine-url {url}: {error}") from None
        if not is_base:
            raise ValueError(f"--engine-url {url}: must be {server_url(url)}")
    if twice := next((url for number, url in enumerate(urls) if url in urls[:number]), None):
        raise ValueError(f"--engine-url {twice}: names a server twice")
    if engines > 1:
        raise ValueError(f"{flag}: the servers are the engines; leave out --engines {engines}")
    if devices:
        raise ValueError(f"{flag}: a server has the devices that it was started with; leave out --engine-devices")
    if num_roles:
        raise ValueError(f"{flag}: a server holds the weights of one policy, not of several --role; leave it out")
