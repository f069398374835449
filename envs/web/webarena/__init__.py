"""Tasks on sites that somebody else serves, in files as those of WebArena."""
