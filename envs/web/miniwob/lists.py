"""Scripts that solve the pages of MiniWoB++ with several entries: mails, posts, tickets, a menu card, results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from envs.web.miniwob.reading import Calls, Reading, click, write
from envs.web.page import Element, Text


def _mail_icon(page: Reading) -> Calls:
    match = re.search(r"email by (\S+) and click the (trash|star)", page.goal)
    sender, icon = match.groups() if match else ("", "")
    yield click(page.after(sender, icon))


def _post(page: Reading) -> Calls:
    match = re.search(r"user (@\S+?),", page.goal)
    user, name = match[1] if match else "", page.quotes[0]
    if name.lower() in ("reply", "retweet", "like"):
        yield click(page.after(user, name.lower()))
        return
    yield click(page.after(user, "more"))
    yield click(next(each for each in page.all() if each.name.startswith(name)))


def _posts(page: Reading) -> Calls:
    match = re.search(r'Click the "(.*)" button on (all|\d+) posts? by (@\S+) and', page.goal)
    name, count, user = match.groups() if match else ("", "0", "")
    places = []
    is_theirs = False
    for node in page.nodes:
        if isinstance(node, Text):
            is_theirs = user in node.content.split() if "@" in node.content else is_theirs
        elif is_theirs and node.name.lower() == name.lower():
            places.append(node.index)
    for index in places if count == "all" else places[: int(count)]:
        yield click(page.all()[index - 1])
    yield click(page.find("Submit"))


def _ticket(page: Reading) -> Calls:
    tickets: list[tuple[float, float, Element]] = []
    minutes = 0.0
    for node in page.nodes:
        if isinstance(node, Element):
            if price := re.search(r"\$(\d+)", node.name):
                tickets.append((float(price[1]), minutes, node))
        elif time := re.fullmatch(r"(\d+)h (\d+)m", node.content):
            minutes = 60 * float(time[1]) + float(time[2])
    by_price = "cheapest" in page.goal or "expensive" in page.goal
    is_least = "cheapest" in page.goal or "shortest" in page.goal
    pick = min if is_least else max
    yield click(pick(tickets, key=lambda ticket: ticket[0] if by_price else ticket[1])[2])


def _search(page: Reading) -> Calls:
    match = re.search(r"(\d+)(st|nd|rd|th)", page.goal)
    place = int(match[1]) - 1 if match else 0
    yield write(page.all("textbox")[0], page.quotes[0])
    yield click(page.find("Search"))
    if place >= 3:
        yield click(page.find(str(place // 3 + 1), "link"))
    links = [each for each in page.all("link") if not re.fullmatch(r"\d|[<>«»]|First|Previous|Next|Last", each.name)]
    yield click(links[place % 3])


def _phone_book(page: Reading) -> Calls:
    match = re.search(r"Find (.*) in the contact book and click on their (.*)\.", page.goal)
    name, what = match.groups() if match else ("", "")
    for _ in range(12):
        if name in page.texts:
            break
        yield click(page.find(">", "link"))
    wish = {"phone number": "Phone:", "email": "Email:", "address": "Address:"}[what]
    nodes = page.nodes
    place = next(place for place, node in enumerate(nodes) if isinstance(node, Text) and node.content == wish)
    yield click(next(node for node in nodes[place:] if isinstance(node, Element)))


def _odd_or_even(page: Reading) -> Calls:
    nodes = page.nodes
    answers = []
    for place, node in enumerate(nodes):
        if isinstance(node, Text) and re.fullmatch(r"-?\d+", node.content):
            button = nodes[place - 1 if int(node.content) % 2 else place + 1]
            if isinstance(button, Element):
                answers.append(button.index)
    for index in answers:
        yield click(page.all()[index - 1])
    yield click(page.find("Submit"))


def _order(page: Reading) -> Calls:
    if page.goal.startswith("Order one of each item: "):
        wishes = [page.after(name, "+").index for name in page.texts if len(name) > 1 and name in page.goal]
    else:
        match = re.match(r"Order (\d+) items that are (.*)", page.goal)
        count, kind = (int(match[1]), match[2].rstrip(".")) if match else (0, "")
        nodes = page.nodes
        index = next(
            node.index
            for place, node in enumerate(nodes)
            if isinstance(node, Element) and node.name == "+"
            if any(isinstance(each, Text) and kind in each.content for each in nodes[place - 2 : place])
        )
        wishes = [index] * count
    for index in wishes:
        yield click(page.all()[index - 1])
    yield click(page.find("Order!"))


LISTS: Mapping[str, Callable[[Reading], Calls]] = {
    "buy-ticket": _ticket,
    "email-inbox-delete": _mail_icon,
    "email-inbox-important": _mail_icon,
    "odd-or-even": _odd_or_even,
    "order-food": _order,
    "phone-book": _phone_book,
    "search-engine": _search,
    "social-media": _post,
    "social-media-all": _posts,
    "social-media-some": _posts,
}
