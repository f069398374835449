"""vLLM as a sampling engine, in this process or in one of its own.

`policy` is the `Policy`: what is asked, restarts, when weights are handed over. `handover` gives it the weights and
proves that they arrived. `place` and `memory` say where the engine computes and how much it may take, `plan` puts that
into words that another process can be told, and `installed` finds out which vLLM there is.

`engine` is vLLM itself, with the surface add, drop, step, load, adapt, sleep, forget, close; `launch` starts it.
`remote` has the same surface and talks to an `engine` in another process: `process` starts and ends that, `serve` is
its program, and `parcel` is the file that takes the weights over.

`worker` and `drawing` run inside vLLM, in each of its workers, and import it; nothing else does before it starts.
`asked` are the words that all of them share.
"""
