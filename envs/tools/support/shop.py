"""The records of a small shop: customers, goods, orders; sampled from a generator and stored in SQLite."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np

from envs.tools.database import database_image

TODAY = date(2031, 6, 16)
CUSTOMERS, PRODUCTS, ORDERS_EACH = 5, 6, 2
FIRST_NAMES = ("Ada", "Bruno", "Carla", "Dario", "Edda", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Levin")
LAST_NAMES = ("Abel", "Brandt", "Costa", "Dietz", "Engel", "Fuchs", "Greco", "Haas", "Ivers", "Jung", "Kern", "Lenz")
DOMAINS = ("post.example", "mail.example", "letter.example")
STREETS = ("Mill Lane", "Harbour Road", "Elm Street", "Station Road", "Garden Way", "Church Hill")
GOODS = ("kettle", "lamp", "rug", "clock", "mirror", "basket", "toaster", "vase", "blanket", "stool", "teapot", "radio")
COLOURS = ("red", "blue", "green", "white", "black", "pink")
COLOURS_EACH = 3
SCHEMA = """
create table customers (customer text primary key, name text, email text, postcode text, credit integer);
create table items (sku text primary key, product text, colour text, price integer, stock integer, final_sale integer,
    note text);
create table orders (number text primary key, customer text, placed text, status text, promised text, delivered text,
    street text, postcode text, tracking text, late_credit integer, note text);
create table lines (number text, sku text, price integer, state text, primary key (number, sku));
create table refunds (number text, sku text, paid_to text, amount integer);
create table cases (outcome text);
create index orders_by_customer on orders (customer);
"""


@dataclass
class Customer:
    """A customer of the shop. Credit is in cents."""

    id: str
    name: str
    email: str
    postcode: str
    credit: int


@dataclass
class Item:
    """A product in one colour. The price is in cents."""

    sku: str
    product: str
    colour: str
    price: int
    stock: int
    final_sale: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """As people call it: "blue kettle"."""
        return f"{self.colour} {self.product}"


@dataclass
class Order:
    """An order with its items, each once."""

    number: str
    customer: Customer
    items: list[Item]
    order_date: date
    street: str
    tracking: str
    status: str = "delivered"  # or "pending", "shipped"
    due_date: date = TODAY
    delivery_date: date | None = None
    late_credit: bool = False  # whether the credit for a late parcel was given
    note: str = ""

    def deliver(self, days_ago: int, days_late: int = 0) -> None:
        """Make it an order that was delivered `days_ago` days ago, `days_late` days after the promised day."""
        self.status, self.delivery_date = "delivered", TODAY - timedelta(days_ago)
        self.due_date = self.delivery_date - timedelta(days_late)
        self.order_date = self.due_date - timedelta(6)

    def await_delivery(self, status: str) -> None:
        """Make it an order that is not delivered yet, `pending` or `shipped`."""
        self.status, self.delivery_date = status, None
        self.order_date, self.due_date = TODAY - timedelta(2), TODAY + timedelta(4)


@dataclass
class Shop:
    """All records of a shop."""

    customers: list[Customer]
    items: list[Item]
    orders: list[Order] = field(default_factory=list)

    def orders_of(self, customer: Customer) -> list[Order]:
        """The orders of a customer."""
        return [order for order in self.orders if order.customer is customer]

    def other_colours(self, item: Item) -> list[Item]:
        """The same product in other colours."""
        return [other for other in self.items if other.product == item.product and other is not item]

    def image(self) -> bytes:
        """Return the image of a database that holds the records (`SCHEMA`)."""
        customers = [(c.id, c.name, c.email, c.postcode, c.credit) for c in self.customers]
        items = [(i.sku, i.product, i.colour, i.price, i.stock, int(i.final_sale), i.note) for i in self.items]
        orders = [_order_row(order) for order in self.orders]
        lines = [(order.number, item.sku, item.price, "bought") for order in self.orders for item in order.items]
        tables = (("customers", customers), ("items", items), ("orders", orders), ("lines", lines))
        return database_image(SCHEMA, tables)


def sample_shop(rng: np.random.Generator) -> Shop:
    """Draw a shop. All its goods are in stock, and all its orders were delivered in time about a week ago."""
    pairs = rng.permutation(len(FIRST_NAMES))[:CUSTOMERS]
    ids = rng.choice(900, CUSTOMERS, replace=False) + 100
    customers = [
        _sample_customer(rng, f"C{id}", FIRST_NAMES[pair], str(rng.choice(LAST_NAMES)))
        for id, pair in zip(ids, pairs, strict=True)
    ]
    items = []
    for product in rng.choice(GOODS, PRODUCTS, replace=False):
        price = int(rng.integers(60, 900)) * 10 - 10
        for colour in rng.choice(COLOURS, COLOURS_EACH, replace=False):
            sku = f"{str(product)[:3].upper()}-{str(colour)[:3].upper()}"
            items.append(Item(sku, str(product), str(colour), price + int(rng.integers(0, 8)) * 50, 3))
    shop = Shop(customers, items)
    numbers = rng.choice(9000, CUSTOMERS * ORDERS_EACH, replace=False) + 1000
    codes = rng.choice(900_000, CUSTOMERS * ORDERS_EACH, replace=False) + 100_000
    for place, (number, code) in enumerate(zip(numbers, codes, strict=True)):
        street = f"{rng.integers(1, 99)} {rng.choice(STREETS)}"
        order = Order(f"O{number}", customers[place // ORDERS_EACH], [], TODAY, street, f"TR{code}")
        order.deliver(int(rng.integers(5, 12)))
        shop.orders.append(order)
    for customer in customers:  # no product twice, so that a customer's words name one item
        products = rng.choice(len(items) // COLOURS_EACH, 2 * ORDERS_EACH, replace=False)
        selection = [items[COLOURS_EACH * place + int(rng.integers(COLOURS_EACH))] for place in products]
        for order in shop.orders_of(customer):
            order.items = [selection.pop() for _ in range(int(rng.integers(1, 3)))]
    return shop


def money(cents: int) -> str:
    """Write an amount: `4790` is "47.90"."""
    return f"{cents / 100:.2f}"


def _sample_customer(rng: np.random.Generator, id: str, first: str, last: str) -> Customer:
    email = f"{first}.{last}{rng.integers(10, 99)}@{rng.choice(DOMAINS)}".lower()
    return Customer(id, f"{first} {last}", email, str(rng.integers(10_000, 99_999)), int(rng.integers(0, 40)) * 50)


def _order_row(order: Order) -> tuple[object, ...]:
    return (
        order.number,
        order.customer.id,
        order.order_date.isoformat(),
        order.status,
        order.due_date.isoformat(),
        order.delivery_date.isoformat() if order.delivery_date else None,
        order.street,
        order.customer.postcode,
        order.tracking,
        int(order.late_credit),
        order.note,
    )
