"""What an episode begins with: its task, and the guide that tells a player what to do."""
