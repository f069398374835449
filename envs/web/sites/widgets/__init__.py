"""Single pages with one kind of control each."""
