"""What the shell environment is made of: goals, file trees, and the command runner inside the sandbox."""
