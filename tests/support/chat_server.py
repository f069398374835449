"""A small chat-completions server that adds and bisects numbers, correctly in about seven of ten requests.

Run `python tests/support/chat_server.py PORT LOG [--answers N --then die|hold]`. It appends a line to LOG for every
request and every answer, so that both can be counted after a kill. After N answers it kills itself or stops answering.
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


def solve(body: dict[str, Any]) -> str:
    """Return the right reply, or for three of ten requests (chosen by digest) a wrong one."""
    question = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    if match := re.match(r"(\d+) \+ (\d+)", question):
        value = int(match[1]) + int(match[2])
    else:
        ends = [int(end) for end in re.findall(r"\d+", question)[:2]] or [0]
        value = sum(ends) // len(ends)
    return str(value if int(digest(json.dumps(body).encode()), 16) % 10 < 7 else value + 1)


def completion(content: str | None, prompt: int = 10, **message: Any) -> dict[str, Any]:
    """Return a response of the API; each character of the reply counts as a token."""
    tokens = len(content or "")
    return {
        "object": "chat.completion",
        "choices": [
            {"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop", "index": 0}
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens},
    }


async def serve(respond: Respond, port: int = 0) -> asyncio.Server:
    """Answer each request on a local port with `respond(path, headers, body)`; port 0 takes a free one."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head.splitlines()[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                answer = await respond(path, headers, body)
                text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
                kind = "text/html" if isinstance(answer.body, str) else "application/json"
                fields = {"content-type": kind, "content-length": str(len(text.encode())), **answer.headers}
                lines = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
                writer.write(f"HTTP/1.1 {answer.status} OK\r\n{lines}\r\n{text}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", port)


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("log")
    parser.add_argument("--answers", type=int, default=10**9)
    parser.add_argument("--then", choices=("die", "hold"), default="hold")
    args = parser.parse_args()
    log = os.open(args.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    num_answers = 0

    async def respond(path: str, headers: dict[str, str], body: bytes) -> Answer:
        nonlocal num_answers
        name = digest(body)[:16]
        os.write(log, f"asked {name}\n".encode())
        if num_answers >= args.answers:
            await asyncio.sleep(3600)
        num_answers += 1
        if num_answers == args.answers and args.then == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(log, f"answered {name}\n".encode())
        fields = json.loads(body)
        return Answer(body=completion(solve(fields), prompt=10 * len(fields["messages"])))

    async with await serve(respond, args.port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
