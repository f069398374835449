"""Tools of the travel desk for employees, flights and hotels, as methods that read and write the records."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from envs.tools.desk.desk_tools import DeskTools
from envs.tools.tool import tool
from envs.tools.travel.agency import FLEX_FEE, money
from envs.tools.travel.times import NOW, OFFICES, format_time
from envs.types import ToolError

MAX_NIGHTS = 7
Ticket = Literal["saver", "flex"]
Nights = Annotated[int, Field(ge=1, le=MAX_NIGHTS)]


class BookingTools(DeskTools):
    """Tools for employees, flights and hotels. They refuse what is impossible; the policy is for the model to keep."""

    @tool
    def verify_traveller(self, email: str, badge: str) -> dict[str, Any]:
        """Check that an e-mail address and a badge number belong together, and get the employee's number and office.

        Args:
            email: The employee's e-mail address.
            badge: The five digits on the employee's badge.
        """
        email, badge = email.strip().lower(), badge.strip()
        query = "select traveller, name, office from travellers where email = ? and badge = ?"
        row = self.database.row(query, email, badge)
        self.note_verification(row["traveller"] if row else None, email, badge)
        if row is None:
            raise ToolError("there is no employee with this e-mail address and this badge number")
        return {**row, "utc": f"+{OFFICES[row['office']]}"}

    @tool
    def find_colleague(self, name: str) -> list[dict[str, Any]]:
        """Find employees by their name or number, with their numbers and offices.

        Args:
            name: A first name, a last name, both, or a number such as T123.
        """
        words = set(name[:100].lower().split())
        rows = self.database.rows("select traveller, name, office from travellers order by name")
        return [
            {**row, "utc": f"+{OFFICES[row['office']]}"}
            for row in rows
            if words and words <= {row["traveller"].lower(), *row["name"].lower().split()}
        ]

    @tool
    def list_bookings(self, traveller: str) -> list[dict[str, Any]]:
        """List the booked flights of an employee.

        Args:
            traveller: The employee's number, such as T123.
        """
        query = (
            "select booking, origin, destination, departs, status from bookings "
            "join flights on flights.flight = bookings.flight where traveller = ? order by departs"
        )
        rows = self.database.rows(query, traveller)
        if not rows:
            self._traveller(traveller)
        return rows

    @tool
    def get_booking(self, booking: str) -> dict[str, Any]:
        """Show a booked flight: employee, route, times in UTC, ticket, price, status, check-in code and note.

        Args:
            booking: The booking's number, such as B123.
        """
        row = self._booking(booking)
        flight = self._flight(row["flight"])
        result = {key: flight[key] for key in ("origin", "destination", "departs", "lands")}
        result |= {key: row[key] for key in ("booking", "traveller", "flight", "ticket", "status", "code")}
        return {**result, "price": money(row["price"]), **_note(row)}

    @tool
    def find_flights(self, origin: str, destination: str, day: str) -> list[dict[str, Any]]:
        """List the flights of a route on a day with their times in UTC, free seats and the prices of both tickets.

        Args:
            origin: The city where the flight starts.
            destination: The city where it lands.
            day: The day, as in 2031-06-23.
        """
        cities = [self._city(city) for city in (origin, destination)]
        first = self._day(day)
        query = (
            "select flight, departs, lands, seats, price, note from flights "
            "where origin = ? and destination = ? and departs >= ? and departs < ? order by departs"
        )
        rows = self.database.rows(query, *cities, first.isoformat(), (first + timedelta(1)).isoformat())
        return [
            {
                "flight": row["flight"],
                "departs": row["departs"],
                "lands": row["lands"],
                "seats": row["seats"],
                "saver": money(row["price"]),
                "flex": money(row["price"] + FLEX_FEE),
                **_note(row),
            }
            for row in rows
        ]

    @tool
    def book_flight(self, traveller: str, flight: str, ticket: Ticket) -> dict[str, Any]:
        """Book a flight for an employee.

        Args:
            traveller: The employee's number.
            flight: The flight's number, such as F123.
            ticket: saver, or flex, which costs more and can be changed.
        """
        self._traveller(traveller)
        row = self._free_flight(flight)
        self.note_write("book_flight", {"traveller": traveller, "flight": flight, "ticket": ticket})
        booking = self._next_number("bookings", "booking")
        price = row["price"] + (FLEX_FEE if ticket == "flex" else 0)
        values = (booking, traveller, flight, ticket, price)
        self.database.write("insert into bookings values (?, ?, ?, ?, ?, 'booked', 'at check-in', '')", *values)
        self.database.write("update flights set seats = seats - 1 where flight = ?", flight)
        return {"booking": booking, "flight": flight, "ticket": ticket, "price": money(price)}

    @tool
    def change_flight(self, booking: str, flight: str) -> dict[str, Any]:
        """Change a booking to another flight of the same route with the same ticket. Only a higher price is charged.

        Args:
            booking: The booking's number.
            flight: The number of the new flight.
        """
        row = self._open_booking(booking)
        old, new = self._flight(row["flight"]), self._free_flight(flight)
        if flight == row["flight"]:
            raise ToolError(f"booking {booking} is for flight {flight} already")
        if (old["origin"], old["destination"]) != (new["origin"], new["destination"]):
            raise ToolError(f"flight {flight} has another route than booking {booking}")
        self.note_write("change_flight", {"booking": booking, "flight": flight})
        fare = new["price"] + (FLEX_FEE if row["ticket"] == "flex" else 0)
        price = max(fare, row["price"])
        self.database.write("update bookings set flight = ?, price = ? where booking = ?", flight, price, booking)
        self.database.write("update flights set seats = seats - 1 where flight = ?", flight)
        self.database.write("update flights set seats = seats + 1 where flight = ?", row["flight"])
        return {"booking": booking, "flight": flight, "extra_charge": money(price - row["price"])}

    @tool
    def cancel_flight(self, booking: str, reason: Literal["ill", "other"]) -> dict[str, Any]:
        """Cancel a booked flight and refund what the ticket and the reason allow.

        Args:
            booking: The booking's number.
            reason: ill if the employee is ill, other for any other reason.
        """
        row = self._open_booking(booking)
        self.note_write("cancel_flight", {"booking": booking, "reason": reason})
        is_full = row["ticket"] == "flex" or reason == "ill"
        amount = row["price"] if is_full else row["price"] // 2
        self.database.write("update bookings set status = 'cancelled' where booking = ?", booking)
        self.database.write("update flights set seats = seats + 1 where flight = ?", row["flight"])
        self.database.write("insert into refunds values (?, ?, ?)", booking, reason, amount)
        return {"booking": booking, "status": "cancelled", "refund": money(amount)}

    @tool
    def find_hotels(self, city: str, arrival: str, nights: Nights) -> list[dict[str, Any]]:
        """List the hotels of a city with the price of a night, and whether they have a room for all nights.

        Args:
            city: The city.
            arrival: The day of arrival, as in 2031-06-23.
            nights: How many nights.
        """
        city, first = self._city(city), self._day(arrival)
        query = "select hotel, name, price, breakfast, note from hotels where city = ? order by hotel"
        return [
            {
                "hotel": row["hotel"],
                "name": row["name"],
                "price": money(row["price"]),
                "breakfast": bool(row["breakfast"]),
                "rooms": "free" if self._is_free(row["hotel"], first, nights) else "full",
                **_note(row),
            }
            for row in self.database.rows(query, city)
        ]

    @tool
    def book_hotel(self, traveller: str, hotel: str, arrival: str, nights: Nights) -> dict[str, Any]:
        """Book a hotel room for an employee.

        Args:
            traveller: The employee's number.
            hotel: The hotel's number, such as H123.
            arrival: The day of arrival, as in 2031-06-23.
            nights: How many nights.
        """
        self._traveller(traveller)
        first = self._day(arrival)
        row = self.database.row("select price from hotels where hotel = ?", hotel)
        if row is None:
            raise ToolError(f"there is no hotel {hotel[:20]!r}; hotel numbers look like H123")
        if not self._is_free(hotel, first, nights):
            raise ToolError(f"hotel {hotel} has no room for all of these nights")
        arguments = {"traveller": traveller, "hotel": hotel, "arrival": first.isoformat(), "nights": nights}
        self.note_write("book_hotel", arguments)
        price, last = row["price"] * nights, (first + timedelta(nights)).isoformat()
        self.database.write(
            "insert into stays values (?, ?, ?, ?, ?)", traveller, hotel, first.isoformat(), nights, price
        )
        self.database.write(
            "update rooms set free = free - 1 where hotel = ? and night >= ? and night < ?",
            hotel,
            first.isoformat(),
            last,
        )
        return {"hotel": hotel, "arrival": first.isoformat(), "nights": nights, "price": money(price)}

    def _traveller(self, traveller: str) -> dict[str, Any]:
        row = self.database.row("select traveller, name, office from travellers where traveller = ?", traveller)
        if row is None:
            raise ToolError(f"there is no employee {traveller[:20]!r}; employee numbers look like T123")
        return row

    def _booking(self, booking: str) -> dict[str, Any]:
        row = self.database.row("select * from bookings where booking = ?", booking)
        if row is None:
            raise ToolError(f"there is no booking {booking[:20]!r}; booking numbers look like B123")
        return row

    def _open_booking(self, booking: str) -> dict[str, Any]:
        row = self._booking(booking)
        if row["status"] != "booked":
            raise ToolError(f"booking {booking} is {row['status']}")
        return row

    def _flight(self, flight: str) -> dict[str, Any]:
        row = self.database.row("select * from flights where flight = ?", flight)
        if row is None:
            raise ToolError(f"there is no flight {flight[:20]!r}; flight numbers look like F123")
        return row

    def _free_flight(self, flight: str) -> dict[str, Any]:
        row = self._flight(flight)
        if row["departs"] <= format_time(NOW):
            raise ToolError(f"flight {flight} has left")
        if row["seats"] < 1:
            raise ToolError(f"flight {flight} is sold out")
        return row

    def _is_free(self, hotel: str, first: date, nights: int) -> bool:
        query = "select count(*) as nights from rooms where hotel = ? and night >= ? and night < ? and free > 0"
        row = self.database.row(query, hotel, first.isoformat(), (first + timedelta(nights)).isoformat())
        return row is not None and row["nights"] == nights

    def _city(self, name: str) -> str:
        city = name[:100].strip().title()
        if city not in OFFICES:
            raise ToolError(f"there is no city {name[:20]!r} in the records; they have {', '.join(OFFICES)}")
        return city

    def _day(self, text: str) -> date:
        try:
            if len(text) != len("2031-06-23"):
                raise ValueError(text)
            day = date.fromisoformat(text)
        except ValueError:
            raise ToolError(f"{text[:20]!r} is no day; write it as 2031-06-23") from None
        if abs(day.year - NOW.year) > 1:
            raise ToolError(f"day {text} is too far away")
        return day

    def _next_number(self, table: str, column: str) -> str:
        """The letter of the numbers of a table with the number after the highest."""
        row = self.database.row(f"select {column} as last from {table} order by length({column}) desc, {column} desc")
        assert row is not None
        return f"{row['last'][0]}{int(row['last'][1:]) + 1}"


def _note(row: dict[str, Any]) -> dict[str, str]:
    """The note of a row, if it has one."""
    return {"note": row["note"]} if row["note"] else {}
