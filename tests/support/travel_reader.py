"""A desk clerk that plays `tools/Travel-v0` by its policy from nothing but what it is shown."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

from envs.types import assistant, text

OFFICES = {"Reykjavik": 0, "Lisbon": 1, "Vienna": 2, "Helsinki": 3, "Dubai": 4, "Karachi": 5}
NOW = datetime(2031, 6, 16, 6)
Entry = dict[str, Any]


class Refusal(Exception):
    """A rule forbids the wish."""


class Withdrawal(Exception):
    """The employee leaves everything as it is."""


class Clerk:
    """Plays one episode of an environment that was reset."""

    def __init__(self, env: Any, opening: Any) -> None:
        self.env = env
        self.wish = text(opening[0]).rpartition("The customer writes:\n")[2]
        self.reward = 0.0
        self.ahead = OFFICES

    def say(self, message: str) -> str:
        return text(self.env.step(message)[0][0])

    def call(self, name: str, /, **arguments: Any) -> Any:
        messages, self.reward, terminated, *_ = self.env.step(assistant(tool_calls=[(name, arguments)]))
        if terminated:
            return None
        content = text(messages[0])
        return None if content.startswith("error: ") else json.loads(content)

    def play(self) -> float:
        """Settle the case and return the reward."""
        outcome = "solved"
        try:
            self.identify()
            self.settle()
        except Refusal as refusal:
            outcome = "refused"
            self.say(f"I am sorry, rule {refusal} forbids that.")
        except Withdrawal:
            outcome = "withdrawn"
        more = self.say("Is there anything else?")
        if match := re.search(r"check-in code of my booking (B\d+)", more):
            self.tell_code(match[1])
        self.call("close_case", outcome=outcome)
        return self.reward

    def identify(self) -> None:
        answer = self.say("May I have your e-mail address and the number on your badge?")
        person = self.call(
            "verify_traveller",
            email=re.search(r"\S+@[\w.]+\w", answer)[0],  # type: ignore[index]
            badge=re.search(r"\b\d{5}\b", answer)[0],  # type: ignore[index]
        )
        if person is None:
            raise Refusal(1)
        self.me, self.office = person["traveller"], person["office"]

    def settle(self) -> None:
        wish = self.wish
        if match := re.search(r"need a flight from \w+ to (\w+)", wish):
            self.book(match[1])
        elif match := re.search(r"move my flight to (\w+)", wish):
            self.change(match[1])
        elif match := re.search(r"cancel my flight to (\w+)", wish):
            self.cancel(match[1])
        elif match := re.search(r"check-in code of my flight to (\w+)", wish):
            self.tell_code(self.own_booking(match[1])["booking"])
        elif match := re.search(r"hotel in (\w+)", wish):
            self.hotel(match[1])
        elif match := re.search(r"meeting for me with (\w+)", wish):
            self.schedule(match[1])
        elif match := re.search(r'move the meeting "(\w+)"', wish):
            self.move(match[1])
        elif match := re.search(r'invitation to "(\w+)"', wish):
            self.invitation(match[1])
        else:
            raise AssertionError(wish)

    # Flights and hotels.

    def tell_code(self, booking: str) -> None:
        self.say(f"The check-in code is {self.call('get_booking', booking=booking)['code']}.")

    def own_booking(self, city: str) -> Entry:
        for row in self.call("list_bookings", traveller=self.me):
            if row["destination"] == city:
                return dict(self.call("get_booking", booking=row["booking"]))
        number = re.search(r"\bB\d+", self.say("What is the booking number?"))
        assert number and self.call("get_booking", booking=number[0])["traveller"] != self.me
        raise Refusal(2)

    def counts(self, entry: Entry, person: str) -> bool:
        """Whether an entry of the calendar of somebody counts."""
        if "booking" in entry or entry["organiser"] == person:
            return True
        return {"traveller": person, "answer": "accepted"} in entry["guests"]

    def busy(self, person: str, start: datetime, end: datetime, but: str = "") -> list[Entry]:
        """What in the calendar of somebody counts and overlaps a time."""
        overlaps = []
        for entry in self.call("get_calendar", traveller=person):
            starts, ends = datetime.fromisoformat(entry["start"]), datetime.fromisoformat(entry["end"])
            if self.counts(entry, person) and starts < end and start < ends and entry.get("meeting") != but:
                overlaps.append(entry)
        return overlaps

    def flight(self, city: str, ticket: str, day: str, hours: tuple[str, int]) -> Entry | None:
        """The cheapest flight that fits."""
        fitting = []
        for flight in self.call("find_flights", origin=self.office, destination=city, day=day):
            departs, lands = datetime.fromisoformat(flight["departs"]), datetime.fromisoformat(flight["lands"])
            hour = (departs + timedelta(hours=self.ahead[self.office])).hour
            in_time = hour < hours[1] if hours[0] == "before" else hour >= hours[1]
            if in_time and flight["seats"] and not self.busy(self.me, departs, lands):
                fitting.append((float(flight[ticket]), flight))
        return min(fitting, key=lambda pair: pair[0])[1] if fitting else None

    def choose_flight(self, city: str, answer: str, ticket: str) -> Entry:
        times = set(re.findall(r"\d\d:\d\d my time|\d\d:\d\d", answer))
        if len({time[:5] for time in times}) > 1:
            answer = (
                f"{answer.partition('I have')[0]} {self.say('That is a contradiction. At what time can you leave?')}"
            )
        day, hours = find_day(answer), find_hours(answer)
        flight = self.flight(city, ticket, day, hours)
        if flight is None:
            instead = self.ask_instead("No flight fits. Which other day would work for you?")
            flight = self.flight(city, ticket, find_day(instead), hours)
        assert flight
        if float(flight[ticket]) > 400:
            raise Refusal(4)
        return flight

    def book(self, city: str) -> None:
        answer = self.say("On which day do you want to fly, at what time, and with a saver or a flex ticket?")
        ticket = re.search(r"\b(saver|flex)\b", answer)[1]  # type: ignore[index]
        flight = self.choose_flight(city, answer, ticket)
        if change := self.confirm(f"I will book flight {flight['flight']}."):
            hours = find_hours(answer) if answer.count("my time") == 1 else None
            assert hours
            flight = self.flight(city, ticket, find_day(change), hours)  # type: ignore[assignment]
            assert not self.confirm(f"I will book flight {flight['flight']}.")
        self.call("book_flight", traveller=self.me, flight=flight["flight"], ticket=ticket)
        self.say(f"The price is {flight[ticket]}.")

    def change(self, city: str) -> None:
        booking = self.own_booking(city)
        if datetime.fromisoformat(booking["departs"]) < NOW + timedelta(hours=24):
            raise Refusal(3)
        if booking["ticket"] != "flex":
            raise Refusal(5)
        answer = self.say("What is the new day, and at what time of the day can you leave?")
        flight = self.choose_flight(city, answer, "flex")
        if change := self.confirm(f"I will change booking {booking['booking']} to flight {flight['flight']}."):
            flight = self.flight(city, "flex", find_day(change), find_hours(answer))  # type: ignore[assignment]
            assert not self.confirm(f"I will change booking {booking['booking']} to flight {flight['flight']}.")
        self.call("change_flight", booking=booking["booking"], flight=flight["flight"])
        self.say(f"The extra charge is {max(0.0, float(flight['flex']) - float(booking['price'])):.2f}.")

    def cancel(self, city: str) -> None:
        booking = self.own_booking(city)
        if datetime.fromisoformat(booking["departs"]) < NOW + timedelta(hours=24):
            raise Refusal(3)
        is_ill = "ill" in self.say("Why do you want to cancel it?")
        assert not self.confirm(f"I will cancel booking {booking['booking']}.")
        self.call("cancel_flight", booking=booking["booking"], reason="ill" if is_ill else "other")
        share = 1 if is_ill or booking["ticket"] == "flex" else 0.5
        self.say(f"The refund is {float(booking['price']) * share:.2f}.")

    def hotel(self, city: str) -> None:
        rows = [row for row in self.call("list_bookings", traveller=self.me) if row["destination"] == city]
        if not rows:
            raise Refusal(7)
        booking = self.call("get_booking", booking=rows[0]["booking"])
        lands = datetime.fromisoformat(booking["lands"]) + timedelta(hours=self.ahead[city])
        answer = self.say("How many nights will you stay, and would you like breakfast?")
        breakfast = "want breakfast" in answer
        if "next morning" in answer:
            answer = self.say("That is a contradiction. How many nights is it?")
        nights, arrival = find_nights(answer), lands.date().isoformat()
        hotel = self.choose_hotel(city, arrival, nights, breakfast)
        if change := self.confirm(f"I will book hotel {hotel['hotel']}."):
            nights = find_nights(change)
            hotel = self.choose_hotel(city, arrival, nights, breakfast)
            assert not self.confirm(f"I will book hotel {hotel['hotel']}.")
        self.call("book_hotel", traveller=self.me, hotel=hotel["hotel"], arrival=arrival, nights=nights)
        self.say(f"The price is {float(hotel['price']) * nights:.2f}.")

    def choose_hotel(self, city: str, arrival: str, nights: int, breakfast: bool) -> Entry:
        rows = self.call("find_hotels", city=city, arrival=arrival, nights=nights)
        fitting = [row for row in rows if row["rooms"] == "free" and (row["breakfast"] or not breakfast)]
        if not fitting:
            assert "without breakfast" in self.ask_instead("All are full. What would you like to do instead?")
            fitting = [row for row in rows if row["rooms"] == "free"]
        hotel = min(fitting, key=lambda row: float(row["price"]))
        if float(hotel["price"]) > 150:
            raise Refusal(8)
        return dict(hotel)

    # Calendars.

    def meeting_time(self, day: str, clock: str) -> datetime:
        hour, minute = map(int, clock.split(":"))
        return datetime.fromisoformat(day) + timedelta(hours=hour - self.ahead[self.office], minutes=minute)

    def is_free(self, start: datetime, minutes: int, guest: str, office: str, but: str = "") -> bool:
        end = start + timedelta(minutes=minutes)
        for place in (self.office, office):
            first, last = start + timedelta(hours=self.ahead[place]), end + timedelta(hours=self.ahead[place])
            if first.hour < 8 or (last.hour, last.minute) > (18, 0) or first.date() != last.date():
                return False
        return not self.busy(self.me, start, end, but) and not self.busy(guest, start, end, but)

    def choose_time(self, answer: str, minutes: int, guest: str, office: str, but: str = "") -> datetime:
        day, clocks = find_day(answer), re.findall(r"\d\d:\d\d", answer)
        if len(clocks) > 1:
            clocks = re.findall(r"\d\d:\d\d", self.say("Only one is possible. At what time shall it be?"))
        start = self.meeting_time(day, clocks[0])
        if not self.is_free(start, minutes, guest, office, but):
            instead = self.ask_instead("That is not possible. What other time would suit you?")
            start = self.meeting_time(day, re.findall(r"\d\d:\d\d", instead)[0])
            assert self.is_free(start, minutes, guest, office, but)
        return start

    def settle_time(self, answer: str, minutes: int, guest: Entry, number: str, but: str = "") -> datetime:
        """Agree on the start of a meeting with the employee."""
        start = self.choose_time(answer, minutes, guest["traveller"], guest["office"], but)
        if change := self.confirm(f"The meeting will be at {start:%H:%M} UTC, {number}."):
            start = self.meeting_time(find_day(answer), re.findall(r"\d\d:\d\d", change)[0])
            assert not self.confirm(f"The meeting will be at {start:%H:%M} UTC, {number}.")
        return start

    def schedule(self, first_name: str) -> None:
        assert len(self.call("find_colleague", name=first_name)) == 2
        answer = self.say("What is the last name of the colleague? Which day and what time?")
        details = self.say("How long should the meeting be, and what title should it have?")
        minutes = int(re.search(r"(\d+) minutes", details)[1])  # type: ignore[index]
        title = re.search(r'"(.+)"', details)[1]  # type: ignore[index]
        if minutes > 90:
            raise Refusal(9)
        name = self.colleague_name(answer)
        guest = self.call("find_colleague", name=name)[0]
        start = self.settle_time(answer, minutes, guest, guest["traveller"])
        values = {"start": f"{start:%Y-%m-%dT%H:%M}", "minutes": minutes, "title": title}
        self.call("schedule_meeting", organiser=self.me, guest=guest["traveller"], **values)
        self.tell_time(start, guest["office"])

    def colleague_name(self, answer: str) -> str:
        match = re.search(r"With (\w+ \w+) in", answer)
        assert match, answer
        return match[1]

    def own_meeting(self, title: str) -> Entry:
        entries = self.call("get_calendar", traveller=self.me)
        return dict(next(entry for entry in entries if entry.get("title") == title))

    def move(self, title: str) -> None:
        meeting = self.own_meeting(title)
        if meeting["organiser"] != self.me:
            raise Refusal(10)
        (guest,) = self.call("find_colleague", name=meeting["guests"][0]["traveller"])
        length = datetime.fromisoformat(meeting["end"]) - datetime.fromisoformat(meeting["start"])
        answer = self.say("What is the new day, and what is the new time?")
        minutes = int(length.total_seconds() // 60)
        start = self.settle_time(answer, minutes, guest, meeting["meeting"], meeting["meeting"])
        self.call("move_meeting", meeting=meeting["meeting"], start=f"{start:%Y-%m-%dT%H:%M}")
        self.tell_time(start, guest["office"])

    def invitation(self, title: str) -> None:
        meeting = self.own_meeting(title)
        answer = self.say("Would you like to accept or decline it?")
        if "will not come" in answer:
            answer = self.say("That is a contradiction. Shall I accept or decline it?")
        accepts = "accept" in answer
        start, end = datetime.fromisoformat(meeting["start"]), datetime.fromisoformat(meeting["end"])
        declines = []
        for rival in self.busy(self.me, start, end) if accepts else []:
            if "booking" in rival or rival["organiser"] == self.me:
                raise Refusal(11)
            instead = self.ask_instead(f'It overlaps "{rival["title"]}". Which of the two would you rather attend?')
            accepts = f'go to "{title}"' in instead
            declines += [rival["meeting"]] if accepts else []
        if change := self.confirm(f"I will answer {' and '.join([*declines, meeting['meeting']])}."):
            accepts = "accept" in change
            assert not self.confirm(f"I will answer {meeting['meeting']}.")
        for number in declines:
            self.call("answer_invitation", meeting=number, traveller=self.me, answer="declined")
        verdict = "accepted" if accepts else "declined"
        self.call("answer_invitation", meeting=meeting["meeting"], traveller=self.me, answer=verdict)
        if accepts:
            self.tell_time(start, self.office)

    def tell_time(self, start: datetime, office: str) -> None:
        self.say(f"It starts at {start + timedelta(hours=self.ahead[office]):%H:%M} in {office}.")

    # The employee.

    def ask_instead(self, question: str) -> str:
        answer = self.say(question)
        if "leave everything" in answer:
            raise Withdrawal
        return answer

    def confirm(self, change: str) -> str:
        """Ask to confirm; return "" for a yes, else the change of mind."""
        answer = self.say(f"{change} Do you confirm that?")
        if "leave everything" in answer:
            raise Withdrawal
        return "" if "Yes" in answer else answer


def find_day(answer: str) -> str:
    match = re.search(r"(\d+) (June|July)", answer)
    assert match, answer
    return f"2031-0{6 if match[2] == 'June' else 7}-{int(match[1]):02d}"


def find_hours(answer: str) -> tuple[str, int]:
    match = re.search(r"(before|at) (\d\d):00", answer)
    assert match, answer
    return match[1], int(match[2])


def find_nights(answer: str) -> int:
    match = re.search(r"I stay (\d)", answer)
    assert match, answer
    return int(match[1])
