"""TravelAPI: flights, credit cards, insurance, invoices and a budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from datetime import date, datetime
from random import Random
from typing import Any

from envs.tools.bfcl.backing.backing import MAX_RECORDS, Backing, Integer, Number, Result, Text, is_absent, refuse
from envs.tools.bfcl.backing.fares import AIRPORTS, CURRENCIES, as_date, fare, flight_fault
from envs.tools.tool import tool

SEED = 141053  # of the ids that are drawn; with it they are those that the gold answers name
NEW_CARD_BALANCE = 10_000.0  # USD
TOKEN_SECONDS = 3600
TODAY = date(2026, 1, 15)
FISCAL_YEAR = "2026"
GRANT_TYPES = ("read_write", "read", "write")
_CARD_NUMBER = re.compile(r"[\d *-]{4,40}")
_PASSPORT = re.compile(r"[A-Za-z0-9]{6,12}")


class TravelAPI(Backing):
    """Bookings, cards, insurance and a budget limit of one user.

    Calls that take an access token need the current one. The budget limit is a record only: gold answers book above it.
    Ids and tokens are drawn from a generator whose seed is `random_seed` of the configuration, else one that fits the
    gold answers. As in the official system, what an insurance is called is no part of the state, and an invoice is that
    of a booking alone, so that neither a type of insurance that the user left open nor an id more decides a turn.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.credit_card_list: dict[str, dict[str, Any]] = deepcopy(dict(config.get("credit_card_list", {})))
        self.booking_record: dict[str, dict[str, Any]] = deepcopy(dict(config.get("booking_record", {})))
        self.access_token: str | None = config.get("access_token")
        self.token_type: str | None = config.get("token_type")
        self.token_expires_in: int | None = config.get("token_expires_in")
        self.token_scope: str | None = config.get("token_scope")
        self.user_first_name: str | None = config.get("user_first_name")
        self.user_last_name: str | None = config.get("user_last_name")
        self.budget_limit: float | None = config.get("budget_limit")
        self._bookings_by_insurance: dict[str, str] = {}
        self._random = Random(config.get("random_seed", SEED))

    @tool
    def authenticate_travel(
        self,
        client_id: Text,
        client_secret: Text,
        refresh_token: Text,
        grant_type: Text,
        user_first_name: Text,
        user_last_name: Text,
    ) -> Result:
        """Log a user in, with a new access token."""
        if grant_type not in GRANT_TYPES:
            return refuse(f"grant_type {grant_type[:40]!r} is not one of {', '.join(GRANT_TYPES)}")
        if not all(value.strip() for value in (client_id, client_secret, refresh_token)):
            return refuse("client_id, client_secret and refresh_token must not be empty")
        self.access_token, self.token_type = self._draw(6), "Bearer"
        self.token_expires_in, self.token_scope = TOKEN_SECONDS, grant_type
        self.user_first_name, self.user_last_name = user_first_name, user_last_name
        return {
            "expires_in": self.token_expires_in,
            "access_token": self.access_token,
            "token_type": self.token_type,
            "scope": grant_type,
        }

    @tool
    def book_flight(
        self,
        access_token: Text,
        card_id: Text,
        travel_date: Text,
        travel_from: Text,
        travel_to: Text,
        travel_class: Text,
    ) -> Result:
        """Book a flight and pay for it with a card."""
        if fault := self._fault(access_token, card_id=card_id) or flight_fault(
            travel_from, travel_to, travel_date, travel_class
        ):
            return fault
        if len(self.booking_record) >= MAX_RECORDS:
            return refuse("there are too many bookings")
        cost = fare(travel_from, travel_to, travel_class)
        if not self._pay(card_id, cost):
            return refuse(f"the balance of card {card_id[:40]!r} is lower than the cost of {cost:.2f} USD")
        booking_id, transaction_id = self._draw(7), self._draw(8)
        record = {
            "transaction_id": transaction_id,
            "travel_date": travel_date,
            "travel_from": travel_from,
            "travel_to": travel_to,
            "travel_class": travel_class,
            "travel_cost": cost,
        }
        self.booking_record[booking_id] = {"card_id": card_id, **record}
        return {
            "booking_id": booking_id,
            "transaction_id": transaction_id,
            "booking_status": True,
            "booking_history": {"booking_id": booking_id, **record},
        }

    @tool
    def cancel_booking(self, access_token: Text, booking_id: Text) -> Result:
        """Cancel a booking and pay its cost back."""
        if fault := self._fault(access_token, booking_id=booking_id):
            return fault
        booking = self.booking_record.pop(booking_id)
        card = self.credit_card_list.get(str(booking.get("card_id")))
        if card is not None:
            card["balance"] = round(card.get("balance", 0.0) + float(booking.get("travel_cost", 0.0)), 2)
        return {"cancel_status": True}

    @tool
    def compute_exchange_rate(self, base_currency: Text, target_currency: Text, value: Number) -> Result:
        """Convert an amount of money."""
        for currency in (base_currency, target_currency):
            if currency not in CURRENCIES:
                return refuse(f"currency {currency[:20]!r} is not one of {', '.join(CURRENCIES)}")
        return {"exchanged_value": round(value / CURRENCIES[base_currency] * CURRENCIES[target_currency], 2)}

    @tool
    def contact_customer_support(self, booking_id: Text, message: Text) -> Result:
        """Tell customer support of a problem with a booking."""
        if booking_id not in self.booking_record:
            return _no_booking(booking_id)
        if not message.strip():
            return refuse("the message is empty")
        return {"customer_support_message": f"We have your message about booking {booking_id} and will answer soon."}

    @tool
    def get_all_credit_cards(self) -> Result:
        """Return all cards by id."""
        return {"credit_card_list": self.credit_card_list}

    @tool
    def get_booking_history(self, access_token: Text) -> Result:
        """Return all bookings by id."""
        return self._fault(access_token) or {"booking_history": self.booking_record}

    @tool
    def get_budget_fiscal_year(
        self, lastModifiedAfter: Text | None = None, includeRemoved: Text | None = None
    ) -> Result:
        """Return the fiscal year of the budget."""
        if not is_absent(lastModifiedAfter):
            try:
                datetime.fromisoformat(str(lastModifiedAfter))
            except ValueError:
                return refuse("lastModifiedAfter is not of the form YYYY-MM-DDTHH:MM:SS")
        return {"budget_fiscal_year": FISCAL_YEAR}

    @tool
    def get_credit_card_balance(self, access_token: Text, card_id: Text) -> Result:
        """Return the balance of a card."""
        if fault := self._fault(access_token, card_id=card_id):
            return fault
        return {"card_balance": float(self.credit_card_list[card_id].get("balance", 0.0))}

    @tool
    def get_flight_cost(self, travel_from: Text, travel_to: Text, travel_date: Text, travel_class: Text) -> Result:
        """Return the costs of a flight in USD. There is one a day, at the same cost."""
        fault = flight_fault(travel_from, travel_to, travel_date, travel_class)
        return fault or {"travel_cost_list": [fare(travel_from, travel_to, travel_class)]}

    @tool
    def get_nearest_airport_by_city(self, location: Text) -> Result:
        """Look up the airport of a city."""
        codes = {city.lower(): code for city, code in AIRPORTS.items()}
        code = codes.get(location.strip().lower())
        return {"nearest_airport": code} if code else refuse(f"no airport near {location[:40]!r} is known")

    @tool
    def list_all_airports(self) -> Result:
        """List all airports."""
        return {"airports": list(AIRPORTS.values())}

    @tool
    def purchase_insurance(
        self, access_token: Text, insurance_type: Text, insurance_cost: Number, booking_id: Text, card_id: Text
    ) -> Result:
        """Insure a booking and pay with a card."""
        if fault := self._fault(access_token, card_id=card_id, booking_id=booking_id):
            return fault
        if insurance_cost < 0 or not insurance_type.strip():
            return refuse("a type and a cost that is not negative are needed")
        if len(self._bookings_by_insurance) >= MAX_RECORDS:
            return refuse("there are too many insurances")
        if not self._pay(card_id, insurance_cost):
            return refuse(f"the balance of card {card_id[:40]!r} is lower than the cost of {insurance_cost:.2f} USD")
        insurance_id = self._draw(9)
        self._bookings_by_insurance[insurance_id] = booking_id
        return {"insurance_id": insurance_id, "insurance_status": True}

    @tool
    def register_credit_card(
        self,
        access_token: Text,
        card_number: Text,
        expiration_date: Text,
        cardholder_name: Text,
        card_verification_number: Integer,
    ) -> Result:
        """Register a card, whose balance is 10,000 USD."""
        if fault := self._fault(access_token):
            return fault
        if not _CARD_NUMBER.fullmatch(card_number) or not re.fullmatch(r"(0[1-9]|1[0-2])/\d{4}", expiration_date):
            return refuse("a card number of digits and an expiration date of the form MM/YYYY are needed")
        if not 0 <= card_verification_number <= 9999 or not cardholder_name.strip():
            return refuse("a verification number of at most four digits and the cardholder's name are needed")
        if len(self.credit_card_list) >= MAX_RECORDS:
            return refuse("there are too many cards")
        card_id = self._draw(12)
        self.credit_card_list[card_id] = {
            "card_number": card_number,
            "expiration_date": expiration_date,
            "cardholder_name": cardholder_name,
            "card_verification_number": card_verification_number,
            "balance": NEW_CARD_BALANCE,
        }
        return {"card_id": card_id}

    @tool
    def retrieve_invoice(
        self, access_token: Text, booking_id: Text | None = None, insurance_id: Text | None = None
    ) -> Result:
        """Return the invoice for a booking, which an insurance of it may name instead."""
        if fault := self._fault(access_token):
            return fault
        if is_absent(booking_id) and is_absent(insurance_id):
            return refuse("booking_id or insurance_id is needed")
        if is_absent(booking_id):
            booking_id = self._bookings_by_insurance.get(str(insurance_id))
            if booking_id is None:
                return refuse(f"there is no insurance {str(insurance_id)[:40]!r}")
        booking = self.booking_record.get(str(booking_id))
        if booking is None:
            return _no_booking(str(booking_id))
        return {"invoice": {"booking_id": booking_id, **{key: booking[key] for key in booking if key != "card_id"}}}

    @tool
    def set_budget_limit(self, access_token: Text, budget_limit: Number) -> Result:
        """Set the budget limit in USD."""
        if fault := self._fault(access_token):
            return fault
        if budget_limit < 0:
            return refuse("the budget limit must not be negative")
        self.budget_limit = float(budget_limit)
        return {"budget_limit": self.budget_limit}

    @tool
    def travel_get_login_status(self) -> Result:
        """Say whether there is an access token."""
        return {"status": self.access_token is not None}

    @tool
    def verify_traveler_information(
        self, first_name: Text, last_name: Text, date_of_birth: Text, passport_number: Text
    ) -> Result:
        """Compare a traveler with the user, and check date of birth and passport number."""
        reason = ""
        if (first_name, last_name) != (self.user_first_name, self.user_last_name):
            reason = "The name is not that of the user."
        elif not (birth := as_date(date_of_birth)) or birth >= TODAY:
            reason = "The date of birth is no date of the past in the form YYYY-MM-DD."
        elif not _PASSPORT.fullmatch(passport_number):
            reason = "The passport number does not have 6 to 12 letters and digits."
        return {"verification_status": not reason, "verification_failure": reason}

    def _draw(self, digits: int) -> str:
        return str(self._random.randint(10 ** (digits - 1), 10**digits - 1))

    def _pay(self, card_id: str, cost: float) -> bool:
        card = self.credit_card_list[card_id]
        if card.get("balance", 0.0) < cost:
            return False
        card["balance"] = round(card["balance"] - cost, 2)
        return True

    def _fault(self, access_token: str, *, card_id: str | None = None, booking_id: str | None = None) -> Result | None:
        if self.access_token is None or access_token != self.access_token:
            return refuse("the access token is not valid")
        if card_id is not None and card_id not in self.credit_card_list:
            return refuse(f"there is no card {card_id[:40]!r}")
        return _no_booking(booking_id) if booking_id is not None and booking_id not in self.booking_record else None


def _no_booking(booking_id: str) -> Result:
    return refuse(f"there is no booking {booking_id[:40]!r}")
