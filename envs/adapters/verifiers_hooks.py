"""What is done to verifiers 0.4 so that its model is this process: a harness without a subprocess, and a client.

One private name of verifiers is replaced, `verifiers.v1.interception.server.resolve_client`: configurations whose
`api_key_var` this module has given out get our client, all others the original one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any

import httpx

HARNESS = "turnwise_policy_harness"  # a module that exists in `sys.modules` only: verifiers imports harnesses by name
ENDPOINT = "http://127.0.0.1:1/v1"  # never called
REQUEST_S = 3600.0  # limit of a completion; the environment's own limits are shorter

Ask = Callable[[Mapping[str, Any]], Awaitable[str]]

_asks: dict[str, Ask] = {}
_lock = threading.Lock()


def env_config(name: str, fields: Mapping[str, Any]) -> Any:
    """Return the configuration of the environment of taskset `name`, with our harness and a local runtime.

    `fields` are those of the taskset's configuration. Raises ValueError if there is no such taskset, a field is wrong,
    or the environment has several agents.
    """
    import verifiers.v1 as vf
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.utils import loaders

    _install()
    try:
        taskset = loaders.taskset_config_type(name)(id=name, **fields)
        config = loaders.env_config_type(name)(taskset=taskset)
    except (ModuleNotFoundError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"verifiers:{name}: {' '.join(str(error).split())}") from None
    agents = list(agent_config_fields(config))
    if len(agents) != 1:
        raise ValueError(f"verifiers:{name} has {len(agents)} agents ({', '.join(agents)}); one is supported")
    agent = vf.AgentConfig(harness={"id": HARNESS}, runtime={"type": "subprocess"})
    return config.model_copy(update={agents[0]: agent})


def load_env(config: Any) -> Any:
    """Return verifiers' environment of a configuration."""
    from verifiers.v1.utils import loaders

    return loaders.load_environment(config)


def load_taskset(config: Any) -> Any:
    """Return the taskset of a configuration."""
    from verifiers.v1.utils import loaders

    return loaders.load_taskset(config.taskset)


def model_context(key: str, ask: Ask) -> Any:
    """Return the context of episodes whose completions `ask` gives, given the body of a request.

    `key` identifies the caller; `forget` it when no episode runs any more.
    """
    import verifiers.v1 as vf

    _asks[key] = ask
    return vf.ModelContext(model="policy", client=vf.EvalClientConfig(base_url=ENDPOINT, api_key_var=key))


def forget(key: str) -> None:
    """Drop what `model_context` has registered under `key`."""
    _asks.pop(key, None)


def _install() -> None:
    """Make the harness and the client known to verifiers, once per process."""
    with _lock:
        if HARNESS in sys.modules:
            return
        import verifiers.v1 as vf
        from verifiers.v1.interception import server

        original = server.resolve_client

        class PolicyClient(vf.Client):
            """Asks the policy of the instance that the configuration names."""

            def __init__(self, ask: Ask) -> None:
                super().__init__()
                self.ask = ask

            async def get_response(self, dialect: Any, body: Any, sampling: Any, *_: Any, **__: Any) -> Any:
                message = vf.AssistantMessage(content=await self.ask(body))
                return vf.Response(id="", created=0, model="policy", message=message, finish_reason="stop")

        def resolve_client(config: Any) -> Any:
            ask = _asks.get(getattr(config, "api_key_var", ""))
            return original(config) if ask is None else PolicyClient(ask)

        module = ModuleType(HARNESS)
        module.PolicyHarness = _harness_class(vf)  # type: ignore[attr-defined]
        module.__all__ = ["PolicyHarness"]  # type: ignore[attr-defined]
        server.resolve_client = resolve_client
        sys.modules[HARNESS] = module


def _harness_class(vf: Any) -> type:
    class HarnessConfig(vf.HarnessConfig):  # type: ignore[misc]
        """Without options."""

    class PolicyHarness(vf.Harness[HarnessConfig]):  # type: ignore[misc]
        """An agent that sends the conversation to the model once per turn, in this process."""

        APPENDS_SYSTEM_PROMPT = True
        SUPPORTS_RESUME = True
        EXECUTES_CODE = False
        NEEDS_CONTAINER = False

        async def launch(
            self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any, data: Any, **_: Any
        ) -> Any:
            if mcp_urls:
                raise NotImplementedError("tasks of verifiers with tool servers are not supported")
            system, prompt = self.resolve_prompt(data)
            prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            messages = [message if isinstance(message, dict) else message.model_dump(mode="json") for message in prompt]
            if system:
                messages.insert(0, {"role": "system", "content": system})
            async with httpx.AsyncClient(timeout=REQUEST_S) as client:
                answer = await client.post(
                    f"{endpoint}/chat/completions",
                    headers={"Authorization": f"Bearer {secret}"},
                    json={"model": ctx.model, "messages": messages},
                )
            return vf.ProgramResult(
                exit_code=0 if answer.status_code == 200 else 1, stdout="", stderr=answer.text[-500:]
            )

    return PolicyHarness
