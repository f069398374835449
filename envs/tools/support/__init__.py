"""The support desk of a shop: its records, the cases that customers bring, the customers, and the environment."""
