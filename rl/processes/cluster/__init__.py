"""Processes on the nodes of a Ray cluster: `--cluster`.

`connection` is the cluster as a run sees it, `actor_process` a process there, `keeper` the actor that holds it, and
`nodes` what a node must have. Only `connection` and `actor_process` import Ray, and only when a run asks for a cluster.
"""
