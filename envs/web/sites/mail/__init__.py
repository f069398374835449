"""A mailbox: folders, labels, replies and forwarded messages."""
