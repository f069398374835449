"""The Python interpreter of a session: reads cells and calls from the host's channel, and replies.

It runs in the process of the candidate, the untrusted code. The code that runs here can forge every reply. A reply
therefore describes only that code itself, and the host trusts neither its form nor its size.
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
    """Run the cells and function calls that the host sends on the channel (descriptor 3), until the host closes it.

    Ends the process then. The process must be confined already, by `candidate.confine`.
    """
    interpreter, getpid, end = _Interpreter(candidate.fresh_main().__dict__), os.getpid, os._exit
    own_pid = getpid()
    signal.signal(signal.SIGINT, interpreter.interrupt)
    os.write(CHANNEL, codec.STARTED)
    while True:
        try:
            request = codec.read_request(CHANNEL)
        except EOFError:
            os._exit(0)
        reply = interpreter.handle(request)
        if getpid() != own_pid:  # the code has forked, and the child must neither reply nor read the next request
            end(1 if reply["error"] else 0)
        codec.write_all(CHANNEL, codec.frame(json.dumps(reply).encode()))


class _Interpreter:
    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace, self.cell_count, self.busy = namespace, 0, False

    def interrupt(self, *_: object) -> None:
        """Handler of SIGINT: raises in a running cell, and does nothing between cells."""
        if self.busy:
            raise KeyboardInterrupt

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one cell or call: "error", "" where nothing was raised, and "value", the JSON of a call's value.

        The traceback omits two frames, so user code must be called from here through exactly one more function.
        """
        reply: dict[str, Any] = {"error": "", "value": None}
        try:
            self.busy = True
            if "source" in request:
                self._run_cell(request["source"])
            else:
                value = self.namespace[request["function"]](
                    *json_values.load(request["arguments"]), **json_values.load(request["keywords"])
                )
                reply["value"] = json_values.dump(value)
            self.busy = False
        except BaseException as fault:
            self.busy = False
            reply["error"] = _print_exception(fault)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException as fault:
                reply["error"] = reply["error"] or _print_exception(fault)
        return reply

    def _run_cell(self, source: str) -> None:
        self.cell_count += 1
        name = f"<cell {self.cell_count}>"
        candidate.register_source(name, source)
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if tree.body:
            exec(compile(tree, name, "exec"), self.namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), self.namespace)
            if value is not None:
                self.namespace["_"] = value
                print(repr(value))


def _print_exception(fault: BaseException) -> str:
    """Print the traceback without this module's two frames, and return its last line."""
    try:
        trace = fault.__traceback__
        for _ in range(2):
            trace = trace.tb_next if trace else None
        traceback.print_exception(type(fault), fault, trace)
        return f"{type(fault).__name__}: {fault}"[:1000]
    except BaseException:
        return "an exception that cannot be told"
