"""Several sampling engines for one run, each in a process of its own: `--engines M`.

`pool` is the `rl.policy.engine.Engine` that the rest of the program uses, and `opening` opens one. `routing` says which
engine an episode asks, `process` is an engine as the run sees it, `server` what runs in its process, `messages` what
they say to each other, `devices` which GPUs they have.
`model_copy` takes a model's structure to another process, and `weight_files` its weights.
"""
