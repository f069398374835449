"""What the repository environment is made of: projects, broken repositories, a workspace and its commands."""
