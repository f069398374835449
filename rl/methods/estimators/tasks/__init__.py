"""What is known of tasks and what follows from it: how hard they are, who is drawn, how many episodes each gets."""
