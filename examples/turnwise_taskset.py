"""A Turnwise environment as a taskset of verifiers 0.4: copy this file to where verifiers can import it.

Its id is the name of the module, `turnwise_taskset`; the fields `env`, `split` and `n` of the configuration choose the
environment. The environment plays the user, the agent's replies are its actions, and its return is the reward.
"""

import asyncio

import verifiers.v1 as vf

import envs
from envs.types import text


class TurnwiseData(vf.TaskData):
    env: str
    split: str
    index: int


class TurnwiseTask(vf.Task[TurnwiseData]):
    pass


class TurnwiseConfig(vf.TasksetConfig):
    env: str = "games/GuessNumber-v0"
    split: str = "train"
    n: int = 100


class TurnwiseTaskset(vf.Taskset[TurnwiseTask, TurnwiseConfig]):  # noqa: D101
    def load(self):  # noqa: D102
        for index in range(self.config.n):
            data = TurnwiseData(prompt=None, env=self.config.env, split=self.config.split, index=index)
            yield TurnwiseTask(data, self.config.task)


class TurnwiseEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class TurnwiseEnv(vf.Env[TurnwiseEnvConfig]):  # noqa: D101
    async def run(self, task, agents):  # noqa: D102
        env, options = envs.make(task.data.env), {"split": task.data.split, "index": task.data.index}
        messages, info = await asyncio.to_thread(env.reset, seed=task.data.index, options=options)
        earned, is_over = 0.0, False
        async with agents.player.interaction(task) as talk:
            while not is_over and not (segment := await talk.turn("\n\n".join(map(text, messages)))).terminated:
                messages, reward, *ends, info = await asyncio.to_thread(env.step, segment.last_reply)
                earned, is_over = earned + reward, any(ends)
        env.close()
        talk.trace.record_reward("return", earned)
        talk.trace.record_metric("success", float(info.get("success", False)))


__all__ = ["TurnwiseEnv", "TurnwiseTaskset"]
