"""A shared calendar: days of several people, meetings to schedule, move and cancel."""
