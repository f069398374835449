"""vLLM as a sampling engine, in this process or in one of its own.

`policy` is the `rl.policy.engine.Engine` that the rest of the program uses. It finds vLLM with `version`, plans devices
and memory with `devices` and `memory`, describes the engine in an `engine_config`, and updates and checks the engine's
weights with `weight_sync`.

`engine` wraps vLLM itself; `launch` starts it. `engine_client` has the same methods for an `engine` in another process:
`process` starts and ends that process, `engine_server` is its main loop, and `weight_file` the file that transfers
weights. `requests` holds the types that both sides share.

`worker` and `sampler` run inside vLLM's workers. They import vLLM, which no other module does before the engine starts.
"""
