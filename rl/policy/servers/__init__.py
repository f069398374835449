"""Servers of vLLM that somebody else has started, as the engine of a run: `--engine-url`.

`policy` is the `rl.policy.engine.Engine` that the rest of the program uses. `fleet` knows which servers can be asked,
and `server` is one of them as the run sees it: what it must be like, its weights, its replies. `connection` is its HTTP
interface, `address` how it is named, `weights` what it is given and by what that is checked, `loop_thread` where all of
this happens.
"""
