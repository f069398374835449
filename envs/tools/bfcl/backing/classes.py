"""The classes of BFCL's multi-turn functions by name."""

from __future__ import annotations

from collections.abc import Mapping

from envs.tools.bfcl.backing.backing import Backing
from envs.tools.bfcl.backing.file_system import GorillaFileSystem
from envs.tools.bfcl.backing.math_api import MathAPI
from envs.tools.bfcl.backing.message_api import MessageAPI
from envs.tools.bfcl.backing.ticket_api import TicketAPI
from envs.tools.bfcl.backing.trading_bot import TradingBot
from envs.tools.bfcl.backing.travel_api import TravelAPI
from envs.tools.bfcl.backing.twitter_api import TwitterAPI
from envs.tools.bfcl.backing.vehicle_control import VehicleControlAPI

CLASSES: Mapping[str, type[Backing]] = {
    each.__name__: each
    for each in (
        GorillaFileSystem,
        MathAPI,
        MessageAPI,
        TicketAPI,
        TradingBot,
        TravelAPI,
        TwitterAPI,
        VehicleControlAPI,
    )
}
DOCUMENTS = {  # the file in multi_turn_func_doc/ that documents each class
    "GorillaFileSystem": "gorilla_file_system.json",
    "MathAPI": "math_api.json",
    "MessageAPI": "message_api.json",
    "TicketAPI": "ticket_api.json",
    "TradingBot": "trading_bot.json",
    "TravelAPI": "travel_booking.json",
    "TwitterAPI": "posting_api.json",
    "VehicleControlAPI": "vehicle_control.json",
}
