"""Places for pages in a browser: few at once, in the order of asking, and a wait that no deadline pays for."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from envs.episodes.queue_times import QUEUE_TIMES
from envs.watchdog import WATCHDOG
from envs.web.browser.places import Places
from envs.web.page import BrowserFault


class Owner:
    """Stands for a page."""


def test_pages_wait_for_a_place_in_the_order_in_which_they_came():
    places, first, order = Places(1), Owner(), []
    places.take(first)
    owners = [Owner() for _ in range(3)]

    def wait(number: int) -> None:
        places.take(owners[number])
        order.append((number, places.num_taken, QUEUE_TIMES.seconds(threading.get_ident()) > 0))
        places.give_back(owners[number])

    threads = []
    for number in range(3):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while len(places._waiting) <= number:
            time.sleep(0.001)
    places.give_back(first)
    for thread in threads:
        thread.join(10)
    assert order == [(0, 1, True), (1, 1, True), (2, 1, True)] and places.num_taken == 0


def test_a_page_has_one_place_and_a_forgotten_page_none():
    places, owner = Places(2), Owner()
    for _ in range(5):
        places.take(owner)
    assert places.num_taken == 1
    places.give_back(Owner())
    del owner
    gc.collect()
    assert places.num_taken == 0


def test_the_wait_ends_if_no_page_is_closed_for_as_long_as_an_episode_may_take(monkeypatch):
    monkeypatch.setattr("envs.web.browser.places.LOOK_S", 0.01)
    monkeypatch.setattr(WATCHDOG, "budgets", WATCHDOG.budgets._replace(episode=0.05))
    places, owner = Places(1), Owner()
    places.take(owner)
    with pytest.raises(BrowserFault, match=r"1 pages are open .*TURNWISE_BROWSER_PAGES.* none was closed for"):
        places.take(Owner())
    assert not places._waiting
    places.give_back(owner)
    places.take(Owner())


@pytest.mark.parametrize("text", ["0", "many", "-1", "1.5"])
def test_a_number_of_places_that_is_none_is_one_line(monkeypatch, text):
    monkeypatch.setenv("TURNWISE_BROWSER_PAGES", text)
    with pytest.raises(ValueError, match=f"TURNWISE_BROWSER_PAGES='{text}' is not a whole number above 0"):
        Places()
