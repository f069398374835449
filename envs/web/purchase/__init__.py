"""A shop where what is bought is scored in parts."""
