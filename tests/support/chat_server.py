"""A small server of chat completions: it works out sums and bisects intervals, rightly for most tasks, by digest.

`python tests/support/chat_server.py PORT LOG [--answers N --then die|hold]` appends a line to LOG for every request and every
answer, so that both can be counted after a kill. After N answers it kills itself or leaves every request unanswered.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int = 200
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012


Respond = Callable[[str, dict[str, str], bytes], Awaitable[Answer]]


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def solved(body: dict[str, Any]) -> str:
    """What a clever pupil would reply, or in three of ten cases a careless one."""
    shown = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    if found := re.match(r"(\d+) \+ (\d+)", shown):
        value = int(found[1]) + int(found[2])
    else:
        ends = [int(end) for end in re.findall(r"\d+", shown)[:2]] or [0]
        value = sum(ends) // len(ends)
    return str(value if int(digest(json.dumps(body).encode()), 16) % 10 < 7 else value + 1)


def completion(content: str | None, prompt: int = 10, **message: Any) -> dict[str, Any]:
    """An answer of the API; each character of the reply is a token."""
    tokens = len(content or "")
    return {
        "object": "chat.completion",
        "choices": [
            {"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop", "index": 0}
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens},
    }


async def serve(respond: Respond, port: int = 0) -> asyncio.Server:
    """Answer every request on a port of the loopback with `respond(path, headers, body)`."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.splitlines()[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                answer = await respond(path, headers, body)
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                kind = "text/html" if isinstance(answer.body, str) else "application/json"
                told = {"content-type": kind, "content-length": str(len(text.encode())), **answer.headers}
                lines = "".join(f"{key}: {value}\r\n" for key, value in told.items())
                writer.write(f"HTTP/1.1 {answer.status} Said\r\n{lines}\r\n{text}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    return await asyncio.start_server(connected, "127.0.0.1", port)


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("log")
    parser.add_argument("--answers", type=int, default=10**9)
    parser.add_argument("--then", choices=("die", "hold"), default="hold")
    args = parser.parse_args()
    log = os.open(args.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    answered = 0

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        nonlocal answered
        name = digest(body)[:16]
        os.write(log, f"asked {name}\n".encode())
        if answered >= args.answers:
            await asyncio.sleep(3600)
        answered += 1
        if answered == args.answers and args.then == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(log, f"answered {name}\n".encode())
        parsed = json.loads(body)
        return Answer(body=completion(solved(parsed), prompt=10 * len(parsed["messages"])))

    async with await serve(respond, args.port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
