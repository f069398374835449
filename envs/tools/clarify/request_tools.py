"""The tools of `tools/Clarify-v0`: a question to the user, and three final calls with typed arguments."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from envs.tools.clarify.requests import (
    EVENING,
    OFFICE,
    PEOPLE,
    SHIRTS,
    Colour,
    Day,
    Fabric,
    Minutes,
    Place,
    Room,
    Size,
)
from envs.tools.tool import tool
from envs.tools.tool_env import ToolEnv


class RequestTools(ToolEnv):
    """The tools. A final call that fits the types is noted in `final_call`; a subclass answers questions.

    Attributes:
        final_call: Name and arguments of the final call; an empty name before it.
    """

    final_call: tuple[str, dict[str, Any]] = ("", {})

    def answer_question(self, question: str) -> str:
        """Return the user's answer to a question."""
        raise NotImplementedError

    @tool
    def ask_user(self, question: str) -> str:
        """Ask the user a question about one detail of the request.

        Args:
            question: The question, which names one detail, such as "Which day?".
        """
        return self.answer_question(question)

    @tool
    def book_table(
        self,
        day: Day,
        hour: Annotated[int, Field(ge=EVENING[0], le=EVENING[1])],
        people: Annotated[int, Field(ge=PEOPLE[0], le=PEOPLE[1])],
        place: Place,
    ) -> str:
        """Book a table at a restaurant. This is final.

        Args:
            day: The day.
            hour: The hour at which the guests come.
            people: How many people come.
            place: Where the table stands.
        """
        return self._end("book_table", day=day, hour=hour, people=people, place=place)

    @tool
    def order_shirts(
        self,
        count: Annotated[int, Field(ge=SHIRTS[0], le=SHIRTS[1])],
        colour: Colour,
        size: Size,
        fabric: Fabric,
    ) -> str:
        """Order shirts that are all alike. This is final.

        Args:
            count: How many shirts.
            colour: Their colour.
            size: Their size.
            fabric: What they are made of.
        """
        return self._end("order_shirts", count=count, colour=colour, size=size, fabric=fabric)

    @tool
    def schedule_meeting(
        self,
        day: Day,
        hour: Annotated[int, Field(ge=OFFICE[0], le=OFFICE[1])],
        minutes: Minutes,
        room: Room,
    ) -> str:
        """Schedule a meeting. This is final.

        Args:
            day: The day.
            hour: The hour at which it begins.
            minutes: How long it lasts.
            room: The room.
        """
        return self._end("schedule_meeting", day=day, hour=hour, minutes=minutes, room=room)

    def _end(self, name: str, **arguments: Any) -> str:
        self.final_call = name, arguments
        return "done"
