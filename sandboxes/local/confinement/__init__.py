"""Linux confinement: namespaces, seccomp, Landlock, control groups and the mounts of a jail."""
