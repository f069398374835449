"""The travel and calendar desk of a company: its records, the cases that employees bring, and the environment."""
