"""The interpreter of a session, in the candidate's process: cells and calls come in on the channel, answers go out.

The code that runs here can forge every answer. So an answer only ever speaks of that code itself, and the host believes
nothing else: neither its form nor its size.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import traceback
from typing import Any, NoReturn

from sandboxes import json_values
from sandboxes.local import candidate, codec
from sandboxes.local.candidate import CHANNEL


def serve() -> NoReturn:
    """Answer until the host closes the channel."""
    interpreter = _Interpreter(candidate.fresh_main().__dict__)
    signal.signal(signal.SIGINT, interpreter.interrupt)
    os.write(CHANNEL, codec.STARTED)
    while True:
        try:
            work = codec.read_work(CHANNEL)
        except EOFError:
            os._exit(0)
        answer = interpreter.answer(work)
        codec.write_all(CHANNEL, codec.frame(json.dumps(answer).encode()))


class _Interpreter:
    def __init__(self, names: dict[str, Any]) -> None:
        self.names, self.count, self.busy = names, 0, False

    def interrupt(self, *_: object) -> None:
        """SIGINT stops what a cell does, and nothing where none runs."""
        if self.busy:
            raise KeyboardInterrupt

    def answer(self, work: dict[str, Any]) -> dict[str, Any]:
        """Do one piece of work. `error` is "" where nothing was raised, `value` the plain text of a call's value."""
        answer: dict[str, Any] = {"error": "", "value": None}
        try:
            self.busy = True
            if "source" in work:
                self._run(work["source"])
            else:
                value = self.names[work["function"]](
                    *json_values.load(work["arguments"]), **json_values.load(work["keywords"])
                )
                answer["value"] = json_values.dump(value)
            self.busy = False
        except BaseException as fault:
            self.busy = False
            answer["error"] = _told(fault)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException as fault:
                answer["error"] = answer["error"] or _told(fault)
        return answer

    def _run(self, source: str) -> None:
        self.count += 1
        name = f"<cell {self.count}>"
        candidate.remember(name, source)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            exec(compile(tree, name, "exec"), self.names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), self.names)
            if value is not None:
                self.names["_"] = value
                print(repr(value))


def _told(fault: BaseException) -> str:
    """Print the traceback without our own two frames; its last line."""
    try:
        trace = fault.__traceback__
        for _ in range(2):
            trace = trace.tb_next if trace else None
        traceback.print_exception(type(fault), fault, trace)
        return f"{type(fault).__name__}: {fault}"[:1000]
    except BaseException:
        return "an exception that cannot be told"
