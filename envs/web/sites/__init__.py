"""Sites that come with the package: programs over data of one episode, and the tasks on them."""
