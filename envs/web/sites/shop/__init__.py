"""A shop for furniture: search, options, cart, coupons, checkout, orders and returns."""
