"""Parts of the repository environment: projects, broken repositories, a workspace and its commands."""
