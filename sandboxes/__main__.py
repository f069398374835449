"""`python -m sandboxes serve`: a sandbox of this machine for others, over HTTP."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import sandboxes
from sandboxes.remote.server import Server, check_address
from sandboxes.remote.service import Service

TOKEN = "TURNWISE_SANDBOX_TOKEN"
MISTAKE = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line and exit code 2."""
        self.exit(MISTAKE, f"{self.prog}: error: {' '.join(message.split())}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; 128 and the signal's number then, 2 for what cannot be."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        with _stoppable():
            token = _token(args.token_file)
            check_address(args.host, token)
            with _opened(args.sandbox, args.places) as sandbox:
                _serve(sandbox, token, args)
    except _Stopped as stopped:
        return 128 + stopped.number
    except (ValueError, OSError, sandboxes.SandboxUnavailable) as fault:
        print(f"{parser.prog}: error: {_line(fault)}", file=sys.stderr)
        return MISTAKE
    return 0


def _serve(sandbox: sandboxes.Sandbox, token: str | None, args: argparse.Namespace) -> None:
    places = args.places or getattr(sandbox, "places", None) or 2 * (os.cpu_count() or 1)
    service = Service(sandbox, places=places, queue=args.queue, sessions=args.sessions, lease_s=args.lease)
    try:
        with Server(args.host, args.port, service, token, args.body_mb << 20) as server:
            asked = "with a token" if token else "without a token"
            served = f"sandbox '{args.sandbox}' (tier {sandbox.shelter.tier}), {places} places, a queue of {args.queue}"
            print(f"{server.url} serves {served}, {asked}", flush=True)
            server.serve_forever()
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # the end is not to be interrupted
        service.close()


class _Stopped(Exception):
    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C and SIGTERM raise `_Stopped`, even where a shell had them ignored."""

    def stop(number: int, _: object) -> None:
        raise _Stopped(number)

    before = [signal.signal(number, stop) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, action in zip(_SIGNALS, before, strict=True):
            signal.signal(number, action)


def _opened(name: str, places: int | None) -> sandboxes.Sandbox:
    return sandboxes.open(name, **({"places": places} if places else {}))


def _token(path: Path | None) -> str | None:
    """The token, of the file or the environment. Its text is in no error."""
    token = path.read_text(encoding="utf-8").strip() if path else os.environ.get(TOKEN, "").strip()
    if path and not token:
        raise ValueError(f"{path}: holds no token")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{path or TOKEN}: a token is one word of ASCII letters, digits and signs")
    return token or None


def _line(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return " ".join(str(fault).split())


def _number(low: float, high: float, kind: type = int) -> Callable[[str], float]:
    def read(said: str) -> float:
        try:
            value = kind(said)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{said!r} is no {'whole ' * (kind is int)}number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{said} is not between {low:g} and {high:g}")
        return value

    return read


def _parser() -> _Parser:
    parser = _Parser(prog="python -m sandboxes", description=(__doc__ or "").strip(), allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve")
    serve = commands.add_parser("serve", help="serve a sandbox of this machine over HTTP", allow_abbrev=False)
    add = serve.add_argument
    add("--sandbox", default="local", help="the sandbox that is served, such as local or docker (default: local)")
    add("--host", default="127.0.0.1", help="the address to serve on; others than this machine's need a token")
    add("--port", type=_number(0, 65535), default=0, help="the port (default: 0, one that is free)")
    add("--token-file", type=Path, help=f"file of the token that clients must know (default: the variable {TOKEN})")
    add("--places", type=_number(1, 4096), help="programs that run at once (default: what the sandbox has)")
    add("--queue", type=_number(0, 100_000), default=64, help="programs that wait; more are refused (default: 64)")
    add("--sessions", type=_number(1, 4096), default=256, help="sessions at once (default: 256)")
    add("--lease", type=_number(1, 86400, float), default=60.0, help="seconds until a left session ends (default: 60)")
    add("--body-mb", type=_number(1, 4096), default=64, help="the largest request (default: 64)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
