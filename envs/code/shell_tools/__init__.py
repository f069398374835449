"""Parts of the shell environment: goals, file trees, and the program that runs a command in the sandbox."""
