"""Forms: signing in, a contact form with validation, selects that depend on each other."""

from __future__ import annotations

from typing import Any

from envs.episodes.guide import listing
from envs.web.case import STOP, Case, Draw, Step, changed, choose, click, fill
from envs.web.site import Request
from envs.web.sites.app import App, action, one, page
from envs.web.sites.html import button, check, field, form, hidden, join, link, paragraph, select
from envs.web.sites.words import COUNTRIES, FIRST, LAST

MAX_FAILURES = 3


class Account(App):
    """A page to sign in. Data: `accounts` with passwords, `user`, `remember`, `failures`."""

    brand, accent = "Members", "#1b5e20"
    volatile_keys = App.volatile_keys | {"failures"}

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the form, or who is signed in."""
        if self.data["user"]:
            return "Welcome", paragraph(f"You are signed in as {self.data['user']}.")
        if self.data["failures"] >= MAX_FAILURES:
            return "Sign in", paragraph("Too many attempts. This page is locked.", "error")
        fields = (
            field("User name", "user", required=True, autocomplete="off"),
            field("Password", "password", type="password", required=True),
            check("Remember me", "remember", "yes"),
        )
        return "Sign in", form("/sign-in", fields, button("Sign in"))

    @action("/sign-in")
    def sign_in(self, request: Request) -> str:
        """Check the password."""
        user = one(request.form, "user")
        if self.data["failures"] >= MAX_FAILURES:
            return "/"
        if self.data["accounts"].get(user) != one(request.form, "password") or not user:
            self.data["failures"] += 1
            self.notify("User name or password is wrong.")
            return "/"
        self.data["user"], self.data["remember"] = user, bool(one(request.form, "remember"))
        return "/"


def login(draw: Draw) -> Case:
    """Sign in with a name and a password; at higher levels with or without the box for remembering."""
    first, other = draw.some(FIRST, 2)
    number = "" if draw.level == 0 else draw.number(10, 99)
    user, password = f"{first.lower()}{number}", draw.code(draw.by_level(2, 6, 8, 10))
    accounts = {user: password, other.lower(): draw.code(6)}
    site = Account({"accounts": accounts, "user": "", "remember": False, "failures": 0})
    remember = draw.level > 1 and draw.chance(0.5)
    stay = " and let the page remember you" if remember else ""
    goal = draw.one(
        (
            f'Sign in as "{user}" with the password "{password}"{stay}.',
            f'Your user name is "{user}" and your password is "{password}". Sign in{stay}.',
            f'Log in to the members\' page{stay}. User name: "{user}". Password: "{password}".',
        )
    )
    names = [fill("User name", user), fill("Password", password)]
    box = [click("Remember me")]
    done = [click("Sign in"), STOP]
    steps = [*names, *(box if remember else []), *done]
    misses = {
        "not sent": [*names, *(box if remember else []), STOP],
        "wrong password": [fill("User name", user), fill("Password", password[:-1]), *done],
        "the other box": [*names, *([] if remember else box), *done],
        "somebody else": [fill("User name", other.lower()), fill("Password", accounts[other.lower()]), *done],
    }
    short = f"sign in {user} {password}{' remember' if remember else ''}"
    return Case("login", goal, short, site, changed(site, user=user, remember=remember), steps, misses)


_REASONS = ("Question", "Order", "Complaint", "Press", "Visit")
_MESSAGES = (
    "Please call me back.",
    "The parcel has not arrived.",
    "I would like to visit your workshop.",
    "Do you repair old lamps?",
    "Thank you for the quick answer.",
)


class Contact(App):
    """A contact form, whose fields the page and the server check. Data: `messages`, `draft`."""

    brand, accent = "Lindt & Sons", "#8d4b00"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the form with what was typed before."""
        draft = self.data.get("draft", {})
        fields = [
            field("Full name", "name", draft.get("name", ""), required=True),
            field("E-mail", "email", draft.get("email", ""), type="email", required=True),
            field("Telephone", "phone", draft.get("phone", ""), note="Seven digits, such as 555-0199", required=True),
            select("Reason", "reason", ("", *_REASONS), draft.get("reason", ""), required=True),
            field("Preferred day", "day", draft.get("day", ""), type="date", min="2031-01-01", max="2031-12-31"),
            field("Message", "message", draft.get("message", ""), type="textarea", required=True, maxlength=300),
            check("Send me a copy", "copy", "yes"),
            check("I agree to the terms", "terms", "yes", required=True),
        ]
        return "Contact us", form("/send", fields, button("Send message"))

    @action("/send")
    def send(self, request: Request) -> str:
        """Take the message, or show what is wrong with it."""
        keys = ("name", "email", "phone", "reason", "day", "message")
        record: dict[str, Any] = {key: one(request.form, key) for key in keys}
        digits = "".join(sign for sign in record["phone"] if sign.isdigit())
        if len(digits) != 7:
            self.data["draft"] = record
            self.notify("The telephone number must have seven digits.")
            return "/"
        record |= {"phone": f"{digits[:3]}-{digits[3:]}", "copy": bool(one(request.form, "copy"))}
        self.data["messages"].append(record)
        self.data.pop("draft", None)
        return "/thanks"

    @page("/thanks")
    def thank(self, request: Request) -> Any:
        """Confirm."""
        return "Thank you", join(paragraph("We have received your message."), link("Write another message", "/"))


def contact(draw: Draw) -> Case:
    """Fill a form with validation and send it."""
    first, last = draw.one(FIRST), draw.one(LAST)
    record: dict[str, Any] = {
        "name": f"{first} {last}",
        "email": f"{first.lower()}@{last.lower()}.example",
        "phone": f"{draw.number(200, 999)}-{draw.number(1000, 9999)}",
        "reason": draw.one(_REASONS),
        "day": f"2031-{draw.number(1, 12):02d}-{draw.number(1, 28):02d}" if draw.level > 1 else "",
        "message": draw.one(_MESSAGES),
        "copy": draw.level > 2 and draw.chance(0.5),
    }
    site = Contact({"messages": []})
    labels = {
        "name": "Full name",
        "email": "E-mail",
        "phone": "Telephone",
        "reason": "Reason",
        "day": "Preferred day",
        "message": "Message",
    }
    facts = [f'{label} "{record[key]}"' for key, label in labels.items() if record[key]]
    copy = " Ask for a copy." if record["copy"] else " Do not ask for a copy." if draw.level > 2 else ""
    goal = draw.one(
        (
            f"Send a message by the contact form: {listing(facts)}. Agree to the terms.{copy}",
            f"Fill in the contact form with {listing(facts)}, agree to the terms, and send it.{copy}",
            f"Write to the company. The form needs {listing(facts)}; you agree to the terms.{copy}",
        )
    )

    def filled(values: dict[str, Any]) -> list[Step]:
        steps = [
            choose(label, values[key]) if key == "reason" else fill(label, values[key])
            for key, label in labels.items()
            if values[key]
        ]
        return [*steps, *([click("Send me a copy")] if values["copy"] else []), click("I agree to the terms")]

    end = [click("Send message"), STOP]
    other = next(each for each in _REASONS if each != record["reason"])
    misses = {
        "not sent": [*filled(record), STOP],
        "terms not agreed to": [*filled(record)[:-1], *end],
        "another reason": [*filled({**record, "reason": other}), *end],
        "a letter missing in the e-mail address": [*filled({**record, "email": record["email"][1:]}), *end],
        "a telephone number of six digits": [*filled({**record, "phone": record["phone"][:-1]}), *end],
        "with the copy that was not wanted": [*filled({**record, "copy": not record["copy"]}), *end],
    }
    short = "contact " + "; ".join(str(record[key]) for key in labels if record[key]) + ("; copy" * record["copy"])
    return Case("contact", goal, short, site, changed(site, messages=[record]), [*filled(record), *end], misses)


class Address(App):
    """A place that is chosen by country, region and city, one after another. Data: `place`."""

    brand, accent = "Delivery", "#ad1457"

    @page("/")
    def show(self, request: Request) -> Any:
        """Show the select for what is still open."""
        country, region = one(request.query, "country"), one(request.query, "region")
        place = " / ".join(self.data["place"]) or "not set"
        now = paragraph(f"Place of delivery: {place}", "muted")
        if not country:
            fields = select("Country", "country", ("", *COUNTRIES), required=True)
            return "Country", join(now, form("/", fields, button("Continue"), method="get"))
        again = link("Start again", "/")
        if not region:
            fields = join(hidden(country=country), select("Region", "region", ("", *COUNTRIES[country]), required=True))
            return "Region", join(now, paragraph(country), form("/", fields, button("Continue"), method="get"), again)
        cities = select("City", "city", ("", *COUNTRIES[country][region]), required=True)
        fields = join(hidden(country=country, region=region), cities)
        return "City", join(now, paragraph(f"{country} / {region}"), form("/save", fields, button("Save")), again)

    @action("/save")
    def save(self, request: Request) -> str:
        """Save the place."""
        country, region, city = (one(request.form, key) for key in ("country", "region", "city"))
        if city not in COUNTRIES[country][region]:
            raise ValueError(city)
        self.data["place"] = [country, region, city]
        self.notify("The place is saved.")
        return "/"


def region(draw: Draw) -> Case:
    """Choose a country, one of its regions, and one of its cities."""
    country = draw.one(list(COUNTRIES))
    area = draw.one(list(COUNTRIES[country]))
    city = draw.one(COUNTRIES[country][area])
    place = [country, area, city]
    site = Address({"place": []})
    words = f"{city}, {area}, {country}"
    goal = draw.one(
        (
            f"Set the place of delivery to {words}.",
            f"Deliveries should go to {words}. Save that place.",
            f"Choose country, region and city so that the place of delivery is {words}.",
        )
    )

    def steps(place: list[str]) -> list[Step]:
        first = [choose("Country", place[0]), click("Continue"), choose("Region", place[1]), click("Continue")]
        return [*first, choose("City", place[2]), click("Save"), STOP]

    other_area = next(each for each in COUNTRIES[country] if each != area)
    misses = {
        "not saved": [*steps(place)[:-2], STOP],
        "another region": steps([country, other_area, COUNTRIES[country][other_area][0]]),
        "no city": [*steps(place)[:-3], click("Save"), STOP],
    }
    return Case("region", goal, f"place {words}", site, changed(site, place=place), steps(place), misses)
