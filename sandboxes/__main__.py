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
from sandboxes import own_packages
from sandboxes.parser import USAGE_ERROR, Parser
from sandboxes.registry import accepts_option
from sandboxes.remote.server import Server, check_address
from sandboxes.remote.service import Service
from sandboxes.source_files import user_fault

TOKEN_VARIABLE = "TURNWISE_SANDBOX_TOKEN"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a sandbox of this machine over HTTP until Ctrl-C, SIGTERM or SIGHUP.

    `argv` are the command-line arguments, "serve" first; None stands for those of the process. Returns the exit status:
    128 + the signal's number, or 2 where serving is impossible. Wrong arguments raise SystemExit with 2.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        with _signals_raise():
            token = _read_token(args.token_file)
            check_address(args.host, token)
            with _open_sandbox(args.sandbox, args.places) as sandbox:
                _serve(sandbox, token, args)
    except _SignalReceived as stop:
        return 128 + stop.number
    except (ValueError, OSError, sandboxes.SandboxUnavailable) as error:
        print(f"{parser.prog}: error: {_one_line(error)}", file=sys.stderr)
        return USAGE_ERROR
    except Exception as error:  # the code of the sandbox may be anybody's, and raise anything
        if not (fault := user_fault(error)):
            raise
        print(f"{parser.prog}: error: sandbox {args.sandbox!r}: {fault}", file=sys.stderr)
        return USAGE_ERROR
    return 0


def _serve(sandbox: sandboxes.Sandbox, token: str | None, args: argparse.Namespace) -> None:
    places = args.places or getattr(sandbox, "places", None) or 2 * (os.cpu_count() or 1)
    service = Service(sandbox, places=places, queue=args.queue, sessions=args.sessions, lease_s=args.lease)
    try:
        with _bound(args, service, token) as server:
            access = "with a token" if token else "without a token"
            tier = sandbox.isolation.tier
            capacity = f"{places} places, a queue of {args.queue}"
            print(f"{server.url} serves sandbox '{args.sandbox}' (tier {tier}), {capacity}, {access}", flush=True)
            server.serve_forever()
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the cleanup
        service.close()


def _bound(args: argparse.Namespace, service: Service, token: str | None) -> Server:
    """Return a server that listens. Raises `OSError`, which names the address, if it cannot."""
    try:
        return Server(args.host, args.port, service, token, args.body_mb << 20)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"--host {args.host} --port {args.port}: {reason}; --port 0 takes a free port") from None


class _SignalReceived(Exception):
    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Make these signals raise `_SignalReceived`, even where the shell had set them to be ignored."""

    def stop(number: int, _: object) -> None:
        raise _SignalReceived(number)

    handlers = [signal.signal(number, stop) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, handlers, strict=True):
            signal.signal(number, handler)


def _open_sandbox(name: str, places: int | None) -> sandboxes.Sandbox:
    """Open the sandbox with `places`, if its provider has that option; the service limits calls in any case."""
    return sandboxes.open(name, **({"places": places} if places and accepts_option(name, "places") else {}))


def _read_token(path: Path | None) -> str | None:
    """The token of the file, else of the environment, else None. No error message contains its text."""
    try:
        token = path.read_text(encoding="utf-8").strip() if path else os.environ.get(TOKEN_VARIABLE, "").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text") from None
    if path and not token:
        raise ValueError(f"{path}: holds no token")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"{path or TOKEN_VARIABLE}: a token is one word of ASCII letters, digits and signs")
    return token or None


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _number(low: float, high: float, kind: type = int) -> Callable[[str], float]:
    """A parser of numbers between `low` and `high`, for argparse."""

    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no {'whole ' * (kind is int)}number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not between {low:g} and {high:g}")
        return value

    return parse


def _parser() -> Parser:
    parser = Parser(prog="python -m sandboxes", description=(__doc__ or "").strip(), allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve")
    serve = commands.add_parser("serve", help="serve a sandbox of this machine over HTTP", allow_abbrev=False)
    add = serve.add_argument
    add("--sandbox", default="local", help="the sandbox to serve: local, docker, module:Class ... (default: local)")
    add("--host", default="127.0.0.1", help="the address to serve on; others than this machine's need a token")
    add("--port", type=_number(0, 65535), default=0, help="the port (default: 0, any free one)")
    add("--token-file", type=Path, help=f"file with the token that clients must send (default: ${TOKEN_VARIABLE})")
    add("--places", type=_number(1, 4096), help="programs that run at once (default: that of the sandbox)")
    add("--queue", type=_number(0, 100_000), default=64, help="programs that may wait; more are refused (default: 64)")
    add("--sessions", type=_number(1, 4096), default=256, help="sessions at once (default: 256)")
    add("--lease", type=_number(1, 86400, float), default=60.0, help="seconds until unused sessions end (default: 60)")
    add("--body-mb", type=_number(1, 4096), default=64, help="MiB of the largest request (default: 64)")
    return parser


def command() -> NoReturn:
    """Run `turnwise-sandboxes`, the console script."""
    own_packages.add_working_directory()
    own_packages.put_first()
    sys.exit(main())


if __name__ == "__main__":
    own_packages.put_first()
    sys.exit(main())
