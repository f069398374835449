"""Look at rollouts: `python -m rl.view RUN_OR_JSONL` serves a page on this machine; `--html FILE` writes it."""

from __future__ import annotations

if __name__ == "__main__":  # before the imports below, which another package's names may shadow
    from rl.own_packages import put_own_packages_first

    put_own_packages_first()

from collections.abc import Sequence
from pathlib import Path

from rl.cli import Parser, UserError, run, user_input, whole_number
from rl.spec_paths import absolute_path, as_typed, output_file
from rl.viewer import reader
from rl.viewer.page import page
from rl.viewer.server import serve


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or serve it until interrupted. Mistakes in the arguments or files are reported before either."""
    args = parser().parse_args(argv)
    path, updates = Path(absolute_path(args.rollouts)), args.update or ()
    with user_input():
        if not args.rollouts:
            raise UserError("the path is empty; name the folder of a run or a file of rollouts")
        if args.html and path.is_file() and args.html.exists() and args.html.samefile(path):
            raise UserError(f"--html {args.html}: is the file to be read")
        source = reader.find(path)
        rollouts = reader.read(source, updates, args.limit)
    for note in rollouts.notes:
        print(f"note: {as_typed(note)}")
    if args.html:
        content = page(source, rollouts)
        try:
            args.html.write_bytes(content)
        except OSError as error:
            raise UserError(f"--html {args.html}: {(error.strerror or str(error)).lower()}") from None
        print(f"{len(rollouts.episodes)} episodes in {as_typed(args.html)} ({len(content) / 1e6:.1f} MB)")
        return 0

    def render(requested: tuple[int, ...]) -> bytes:
        source = reader.find(path)
        return page(source, reader.read(source, requested or updates, args.limit))

    serve(render, args.port, lambda address: print(f"{address}  (Ctrl-C ends it)", flush=True))
    return 0


def parser() -> Parser:
    """Return the command-line parser of `rl.view`."""
    command = Parser(description=__doc__)
    command.add_argument("rollouts", metavar="RUN_OR_JSONL", help="a run's folder, or a file of rollouts")
    command.add_argument("--update", type=whole_number(0), nargs="+", metavar="N", help="show these updates only")
    command.add_argument(
        "--limit",
        type=whole_number(1),
        default=2000,
        metavar="N",
        help="show at most the last N episodes (default: 2000)",
    )
    target = command.add_mutually_exclusive_group()
    target.add_argument("--html", type=output_file, metavar="FILE", help="write one self-contained HTML file")
    target.add_argument(
        "--port", type=whole_number(0, 65535), default=0, metavar="P", help="port to serve on (default: a free one)"
    )
    return command


if __name__ == "__main__":
    run(main)
