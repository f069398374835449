"""An MCP server for tests: a stock of goods with a state, slow and failing tools, and names that need care."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from typing import Any

GOODS = {"tea": 3, "milk": 0}


def make() -> Any:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("shop", log_level="CRITICAL")
    stock = dict(GOODS)

    @server.tool()
    def take(item: str, count: int = 1) -> str:
        """Take some of an item away."""
        if stock.get(item, 0) < count:
            raise ToolError(f"only {stock.get(item, 0)} {item}")
        stock[item] -= count
        return f"{stock[item]} left"

    @server.tool(name="stock.look")
    def look(item: str) -> str:
        """Say how many there are."""
        return str(stock[item])

    @server.tool()
    async def add(number: int) -> str:
        """Add to the list; the first call takes longest."""
        await asyncio.sleep(0.05 if number == 0 else 0)
        stock["list"] = stock.get("list", 0) * 10 + number
        return str(stock["list"])

    @server.tool()
    async def slow(seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "done"

    @server.tool()
    def crash() -> str:
        """End the process of the server."""
        os._exit(3)

    @server.tool()
    def luck() -> str:
        """Draw a number."""
        return str(random.random())

    @server.tool()
    def restock(seed: int) -> str:
        """Put all goods back."""
        stock.clear()
        stock.update(GOODS, tea=seed)
        return "restocked"

    return server


def rows() -> list[dict[str, Any]]:
    """Tasks in which the state of the server counts."""
    calls = [{"name": "take", "arguments": {"item": "tea", "count": 2}}]
    check = [{"name": "stock.look", "arguments": {"item": "tea"}, "result": "1"}]
    return [
        {"goal": "Take two tea.", "check": check, "calls": calls},
        {"goal": "How much tea is there? Answer with the number.", "answer": "3", "calls": []},
        {"goal": "Take one tea.", "split": "train", "seed": 7},
    ]


def half(ending: Any) -> float:
    """A checker: half for a call of take, half for tea that is left."""
    took = any(call["name"] == "take" for call in ending.calls)
    return (took + (int(ending.call("stock.look", {"item": "tea"})) > 0)) / 2


if __name__ == "__main__":
    make().run("streamable-http" if sys.argv[1:] else "stdio")
