"""Seats that the trained policy leaves to others: who plays them, and the runners in which it meets them."""
