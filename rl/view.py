"""Look at rollouts: `python -m rl.view RUN_OR_JSONL` serves a page on this machine; `--html FILE` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rl.cli import Parser, UserError, output_file, run, user_input, whole_number
from rl.viewer import reader
from rl.viewer.page import page
from rl.viewer.server import serve


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, or serve it until interrupted. What cannot be read is found out before either."""
    args = parser().parse_args(argv)
    source_path, updates = Path(args.rollouts).expanduser(), args.update or ()
    with user_input():
        if args.html and source_path.is_file() and args.html.exists() and args.html.samefile(source_path):
            raise UserError(f"--html {args.html}: is the file to be read")
        source = reader.find(source_path)
        found = reader.read(source, updates, args.limit)
    for note in found.notes:
        print(f"note: {note}")
    if args.html:
        content = page(source, found)
        args.html.write_bytes(content)
        print(f"{len(found.episodes)} episodes in {args.html} ({len(content) / 1e6:.1f} MB)")
        return 0

    def render() -> bytes:
        now = reader.find(source_path)
        return page(now, reader.read(now, updates, args.limit))

    serve(render, args.port, lambda address: print(f"{address}  (Ctrl-C ends it)", flush=True))
    return 0


def parser() -> Parser:
    """The command line of `rl.view`."""
    made = Parser(description=__doc__)
    made.add_argument("rollouts", metavar="RUN_OR_JSONL", help="a run's folder, or a file of rollouts")
    made.add_argument("--update", type=whole_number(0), nargs="+", metavar="N", help="these updates alone")
    made.add_argument(
        "--limit", type=whole_number(1), default=2000, metavar="N", help="most episodes, the last ones (default: 2000)"
    )
    where = made.add_mutually_exclusive_group()
    where.add_argument("--html", type=output_file, metavar="FILE", help="write one self-contained HTML file")
    where.add_argument(
        "--port", type=whole_number(0, 65535), default=0, metavar="P", help="port to serve on (default: a free one)"
    )
    return made


if __name__ == "__main__":
    run(main)
