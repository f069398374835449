"""Writing a file that the user names for a result, so that what was there is replaced by all of it or kept."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_result(path: str | Path, text: str) -> None:
    """Write `text` to the file `path`, new or existing: after an error or a kill it has its old content.

    A symbolic link stays one; the file that it leads to is written. A device or a pipe, such as `/dev/stdout` and
    `/dev/null`, is written to and never replaced, which a user that may write its folder could do.

    Raises `OSError` with `path` as its file name.
    """
    temporary: Path | None = None
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            Path(path).write_text(text, encoding="utf-8")
            return
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
