"""MessageAPI: messages between the users of a workspace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envs.tools.bfcl.backing.backing import MAX_RECORDS, Backing, Result, Text, refuse
from envs.tools.tool import tool

# The workspace of a row that does not describe one. The first two names and ids occur in the gold answers.
USERS = {"Alice": "USR001", "Bob": "USR002", "Carol": "USR003", "Dan": "USR004"}
MESSAGES = (("USR001", "USR002", "The plan for Monday is ready."), ("USR002", "USR003", "Can you send me the photos?"))


class MessageAPI(Backing):
    """Users by name, and the messages that they have sent. The inbox of a configuration is that of its current user.

    Everything but logging in, looking up users and asking for the login needs a login.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.user_map: dict[str, str] = dict(config.get("user_map", USERS))
        self.user_count: int = config.get("user_count", len(self.user_map))
        self.current_user: str | None = config.get("current_user")
        triples = _inbox_messages(config["inbox"], self.current_user) if "inbox" in config else iter(MESSAGES)
        self.inbox: list[dict[str, Any]] = [
            {"id": number, "sender_id": sender, "receiver_id": receiver, "message": message}
            for number, (sender, receiver, message) in enumerate(triples, 1)
        ]
        self.message_count: int = max(config.get("message_count", 0), len(self.inbox))

    @tool
    def add_contact(self, user_name: Text) -> Result:
        """Add a user to the workspace, under the next free id."""
        if self.current_user is None:
            return _no_login()
        if not user_name.strip():
            return refuse("the user name is empty")
        if user_name in self.user_map:
            return refuse(f"user {user_name[:60]!r} is already there")
        if len(self.user_map) >= MAX_RECORDS:
            return refuse("the workspace is full")
        self.user_count += 1
        number, ids = self.user_count, set(self.user_map.values())
        while f"USR{number:03d}" in ids:
            number += 1
        self.user_map[user_name] = user_id = f"USR{number:03d}"
        return {"added_status": True, "user_id": user_id, "message": f"Contact {user_name} is added."}

    @tool
    def delete_message(self, receiver_id: Text) -> Result:
        """Delete the latest message that the current user has sent to a receiver."""
        if self.current_user is None:
            return _no_login()
        for place in reversed(range(len(self.inbox))):
            if self.inbox[place]["receiver_id"] == receiver_id and self._is_own(self.inbox[place]):
                del self.inbox[place]
                return {"deleted_status": True, "receiver_id": receiver_id, "message": "The message is deleted."}
        return refuse(f"no message was sent to {receiver_id[:60]!r}")

    @tool
    def get_message_stats(self) -> Result:
        """Count messages to the current user, and users that the current user has exchanged messages with."""
        if self.current_user is None:
            return _no_login()
        incoming = [each for each in self.inbox if each["receiver_id"] == self.current_user]
        contacts = {each["receiver_id"] for each in self.inbox if self._is_own(each)}
        contacts |= {each["sender_id"] for each in incoming}
        return {"stats": {"received_count": len(incoming), "total_contacts": len(contacts - {self.current_user})}}

    @tool
    def get_user_id(self, user: Text) -> Result:
        """Look up a user's id."""
        return {"user_id": self.user_map[user]} if user in self.user_map else refuse(f"no user {user[:60]!r}")

    @tool
    def list_users(self) -> Result:
        """List the names of all users."""
        return {"user_list": list(self.user_map)}

    @tool
    def message_get_login_status(self) -> Result:
        """Say whether a user is logged in."""
        return {"login_status": self.current_user is not None}

    @tool
    def message_login(self, user_id: Text) -> Result:
        """Log a user in."""
        if user_id not in self.user_map.values():
            return {"login_status": False, "message": f"There is no user {user_id[:60]!r}."}
        self.current_user = user_id
        return {"login_status": True, "message": f"User {user_id} is logged in."}

    @tool
    def search_messages(self, keyword: Text) -> Result:
        """Find messages of the current user by a keyword, in any case."""
        if self.current_user is None:
            return _no_login()
        return {
            "results": [
                {"receiver_id": each["receiver_id"], "message": each["message"]}
                for each in self.inbox
                if self._is_own(each) and keyword.lower() in each["message"].lower()
            ]
        }

    @tool
    def send_message(self, receiver_id: Text, message: Text) -> Result:
        """Send a message to a user."""
        if self.current_user is None:
            return _no_login()
        if receiver_id not in self.user_map.values():
            return refuse(f"there is no user {receiver_id[:60]!r}")
        if len(self.inbox) >= MAX_RECORDS:
            return refuse("the workspace is full")
        self.message_count += 1
        record = {"id": self.message_count, "sender_id": self.current_user, "receiver_id": receiver_id}
        self.inbox.append({**record, "message": message})
        return {
            "sent_status": True,
            "message_id": self.message_count,
            "message": f"The message is sent to {receiver_id}.",
        }

    @tool
    def view_messages_sent(self) -> Result:
        """List the messages that the current user has sent, by receiver."""
        if self.current_user is None:
            return _no_login()
        messages: dict[str, list[str]] = {}
        for each in self.inbox:
            if self._is_own(each):
                messages.setdefault(each["receiver_id"], []).append(each["message"])
        return {"messages": messages}

    def _is_own(self, record: Mapping[str, Any]) -> bool:
        return record["sender_id"] == self.current_user


def _no_login() -> Result:
    return refuse("nobody is logged in to the message system")


def _inbox_messages(inbox: Any, sender: str | None) -> Iterator[tuple[str | None, str, str]]:
    """Messages of a configuration: objects by receiver that hold a text, texts, or these again by sender."""
    for entry in inbox:
        for receiver, messages in entry.items():
            by_sender = messages if isinstance(messages, Mapping) else {sender: messages}
            for author, texts in by_sender.items():
                for text in [texts] if isinstance(texts, str) else texts:
                    yield author, receiver, str(text)
