"""TradingBot: an account for stocks, with orders, a watch list and transfers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from datetime import date
from typing import Any

from envs.tools.bfcl.backing.backing import (
    MAX_RECORDS,
    Backing,
    Integer,
    Names,
    Number,
    Result,
    Text,
    is_absent,
    refuse,
)
from envs.tools.tool import tool

CURRENT_TIME = "10:30 AM"
TIMESTAMP = "2026-01-15 10:30:00"  # of every transaction that an episode makes
SYMBOLS = {
    "alphabet": "GOOG",
    "alpha tech": "ALPH",
    "apple": "AAPL",
    "google": "GOOG",
    "microsoft": "MSFT",
    "neptune systems": "NEPT",
    "nvidia": "NVDA",
    "omega industries": "OMEG",
    "quasar ltd.": "QUAS",
    "synex solutions": "SYNX",
    "tesla": "TSLA",
    "zeta corp": "ZETA",
}
ORDERS = {  # of a row that does not describe any; gold answers cancel order 12446
    "12345": {"symbol": "MSFT", "price": 305.5, "amount": 5, "status": "Completed"},
    "12446": {"symbol": "GOOG", "price": 2835.0, "amount": 4, "status": "Open"},
}
SECTORS = {
    "technology": ("AAPL", "GOOG", "MSFT", "NVDA"),
    "automobile": ("TSLA",),
    "energy": ("NEPT", "OMEG"),
    "industry": ("ALPH", "QUAS", "SYNX", "ZETA"),
}


class TradingBot(Backing):
    """Stocks, orders, a watch list, and an account with transfers from and to its card.

    An order waits until it is cancelled: nothing is executed, and the balance changes by transfers alone, since the
    documentation says nothing of payment. Orders, transfers and the watch list need a login; any name and password that
    are not empty log in.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        records = config.get("orders", ORDERS)
        kind = records.get("order_type", "Buy")  # some files give the type once, beside the orders
        self.orders: dict[int, dict[str, Any]] = {
            int(key): _order(int(key), order, kind) for key, order in records.items() if isinstance(order, Mapping)
        }
        account = {"account_id": 12345, "balance": 10000.0, "binding_card": 1974202140965533}
        self.account_info: dict[str, Any] = {**account, **config.get("account_info", {})}
        self.is_authenticated: bool = config.get("authenticated", False)
        self.market_status: str = config.get("market_status", "Closed")
        self.order_counter: int = config.get("order_counter", max(self.orders, default=0) + 1)
        self.stocks: dict[str, dict[str, Any]] = deepcopy(dict(config.get("stocks", {})))
        self.watch_list: list[str] = list(config.get("watch_list", ()))
        self.transaction_history: list[dict[str, Any]] = deepcopy(list(config.get("transaction_history", ())))

    @tool
    def add_to_watchlist(self, stock: Text) -> Result:
        """Add a stock to the watch list, once."""
        if fault := self._fault(stock):
            return fault
        if stock not in self.watch_list:
            self.watch_list.append(stock)
        return {"watchlist": self.watch_list}

    @tool
    def cancel_order(self, order_id: Integer) -> Result:
        """Cancel an order that waits."""
        if not self.is_authenticated:
            return _no_login()
        if order_id not in self.orders:
            return _no_order(order_id)
        order = self.orders[order_id]
        if order["status"] in ("Completed", "Cancelled"):
            return refuse(f"order {order_id} is {order['status'].lower()} and cannot be cancelled")
        order["status"] = "Cancelled"
        return {"order_id": order_id, "status": "Cancelled"}

    @tool
    def filter_stocks_by_price(self, stocks: Names, min_price: Number, max_price: Number) -> Result:
        """Keep the stocks whose price lies in a range."""
        prices = {name: float(self.stocks[name]["price"]) for name in stocks if name in self.stocks}
        return {"filtered_stocks": [name for name in stocks if min_price <= prices.get(name, -1.0) <= max_price]}

    @tool
    def fund_account(self, amount: Number) -> Result:
        """Move money from the card to the account."""
        return self._transfer(amount, "deposit")

    @tool
    def get_account_info(self) -> Result:
        """Return account, balance and card."""
        return self.account_info if self.is_authenticated else _no_login()

    @tool
    def get_available_stocks(self, sector: Text) -> Result:
        """List the stocks of a sector."""
        symbols = SECTORS.get(sector.strip().lower())
        if symbols is None:
            return refuse(f"sector {sector[:40]!r} is not one of {', '.join(name.title() for name in SECTORS)}")
        return {"stock_list": list(symbols)}

    @tool
    def get_current_time(self) -> Result:
        """Return the time, which is always the same."""
        return {"current_time": CURRENT_TIME}

    @tool
    def get_order_details(self, order_id: Integer) -> Result:
        """Return an order."""
        return self.orders.get(order_id) or _no_order(order_id)

    @tool
    def get_order_history(self) -> Result:
        """List the ids of all orders."""
        return {"order_history": list(self.orders)} if self.is_authenticated else _no_login()

    @tool
    def get_stock_info(self, symbol: Text) -> Result:
        """Return price, change, volume and averages of a stock."""
        return self.stocks.get(symbol) or _no_stock(symbol)

    @tool
    def get_symbol_by_name(self, name: Text) -> Result:
        """Look up the symbol of a company."""
        return {"symbol": SYMBOLS.get(name.strip().lower(), "Stock not found")}

    @tool
    def get_transaction_history(self, start_date: Text | None = None, end_date: Text | None = None) -> Result:
        """List transfers, of all days or of some."""
        if not self.is_authenticated:
            return _no_login()
        first, last = "0001-01-01" if is_absent(start_date) else start_date, end_date
        last = "9999-12-31" if is_absent(end_date) else end_date
        for day in (first, last):
            try:
                date.fromisoformat(str(day))
            except ValueError:
                return refuse(f"date {str(day)[:40]!r} is not of the form YYYY-MM-DD")
        days = [(str(each.get("timestamp", ""))[:10], each) for each in self.transaction_history]
        return {"transaction_history": [each for day, each in days if str(first) <= day <= str(last)]}

    @tool
    def get_watchlist(self) -> Result:
        """Return the watch list."""
        return {"watchlist": self.watch_list} if self.is_authenticated else _no_login()

    @tool
    def notify_price_change(self, stocks: Names, threshold: Number) -> Result:
        """Name the stocks whose price has changed by at least `threshold` per cent."""
        changes = {name: abs(float(self.stocks[name]["percent_change"])) for name in stocks if name in self.stocks}
        names = [name for name in stocks if changes.get(name, -1.0) >= threshold]
        if not names:
            return {"notification": "No stock has changed that much."}
        return {"notification": f"Stocks that have changed that much: {', '.join(names)}."}

    @tool
    def place_order(self, order_type: Text, symbol: Text, price: Number, amount: Integer) -> Result:
        """Place an order to buy or to sell."""
        if fault := self._fault(symbol):
            return fault
        if order_type.strip().capitalize() not in ("Buy", "Sell"):
            return refuse(f"order_type {order_type[:40]!r} is not Buy or Sell")
        if price <= 0 or amount <= 0:
            return refuse("price and amount must be above 0")
        if len(self.orders) >= MAX_RECORDS:
            return refuse("the account has too many orders")
        order_id, kind = self.order_counter, order_type.strip().capitalize()
        while order_id in self.orders:
            order_id += 1
        order = {"id": order_id, "order_type": kind, "symbol": symbol, "price": float(price), "amount": amount}
        self.orders[order_id] = {**order, "status": "Open"}
        self.order_counter = order_id + 1
        return {"order_id": order_id, "order_type": kind, "status": "Pending", "price": float(price), "amount": amount}

    @tool
    def remove_stock_from_watchlist(self, symbol: Text) -> Result:
        """Take a stock off the watch list."""
        if not self.is_authenticated:
            return _no_login()
        if symbol not in self.watch_list:
            return refuse(f"stock {symbol[:40]!r} is not on the watch list")
        self.watch_list.remove(symbol)
        return {"status": f"Stock {symbol} is taken off the watch list."}

    @tool
    def trading_get_login_status(self) -> Result:
        """Say whether the account is logged in."""
        return {"status": self.is_authenticated}

    @tool
    def trading_login(self, username: Text, password: Text) -> Result:
        """Log in."""
        if self.is_authenticated:
            return {"status": "The account is already logged in."}
        if not username.strip() or not password.strip():
            return refuse("a user name and a password are needed")
        self.is_authenticated = True
        return {"status": "The account is logged in."}

    @tool
    def trading_logout(self) -> Result:
        """Log out."""
        if not self.is_authenticated:
            return {"status": "The account is not logged in."}
        self.is_authenticated = False
        return {"status": "The account is logged out."}

    @tool
    def withdraw_funds(self, amount: Number) -> Result:
        """Move money from the account to the card."""
        return self._transfer(amount, "withdrawal")

    def _transfer(self, amount: float, kind: str) -> Result:
        if not self.is_authenticated:
            return _no_login()
        if amount <= 0:
            return refuse("the amount must be above 0")
        if kind == "withdrawal" and amount > self.account_info["balance"]:
            return refuse("the balance is lower than the amount")
        if len(self.transaction_history) >= MAX_RECORDS:
            return refuse("the account has too many transactions")
        change = float(amount) if kind == "deposit" else -float(amount)
        self.account_info["balance"] = round(self.account_info["balance"] + change, 2)
        self.transaction_history.append({"type": kind, "amount": float(amount), "timestamp": TIMESTAMP})
        return {"status": f"The {kind} is done.", "new_balance": self.account_info["balance"]}

    def _fault(self, symbol: str) -> Result | None:
        if not self.is_authenticated:
            return _no_login()
        return None if symbol in self.stocks else _no_stock(symbol)


def _order(order_id: int, record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": order_id,
        "order_type": record.get("order_type", kind),
        "symbol": record.get("symbol", ""),
        "price": record.get("price", 0.0),
        "amount": record.get("amount", record.get("num_shares", 0)),
        "status": record.get("status", "Open"),
    }


def _no_login() -> Result:
    return refuse("the trading account is not logged in")


def _no_order(order_id: int) -> Result:
    return refuse(f"there is no order {order_id}")


def _no_stock(symbol: str) -> Result:
    return refuse(f"there is no stock {symbol[:40]!r}")
