"""Processes on the nodes of a Ray cluster: `--cluster`.

`connection` is the cluster as a run sees it, `placement` room there for processes that belong together, `actor_process`
a process there, `keeper` the actor that holds it, and `nodes` what a node must have. Ray is imported only when a run
asks for a cluster.
"""
