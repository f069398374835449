"""What is known of tasks, and what follows: who is drawn, how many episodes each gets, which are played to the end."""

"""What is known of tasks, and what follows: who is drawn, how many episodes each gets, which are played to the end."""
