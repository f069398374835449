"""An administration of accounts: roles of people in projects, and the rules for them."""
