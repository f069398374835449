"""How many episodes TRL's GRPOTrainer takes from the same model to a held-out success.

    pip install -e '.[test-trl]'          # TRL, in an environment of its own
    python -m benchmarks.compare.trl --model FOLDER --success 0.8 0.9 --every 10 --seed 0

`benchmarks.reach --start qwen2 --trl PYTHON` runs this beside each of its own runs. Prompts and rewards are those of an
environment whose episodes are one reply each, and evaluations have the tasks of a `rl.train` with the same seed.
`--episodes` are sampled at once and give `--minibatches` optimizer steps at a constant learning rate, in float32 on the
CPU, without activation checkpointing; all else is the default of `GRPOConfig`. The last line of stdout is a JSON
object; its `cpu_seconds` are those of the process, imports included, up to the last evaluation on `test`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import envs
from benchmarks.learn import with_arguments
from rl.cli import Parser, real_number, run, user_input, whole_number
from rl.evaluate.runner import count_tasks, tickets
from sandboxes.extras import install_command

HELD_OUT = 200  # tasks of an evaluation
GROUP = 8  # replies to a task


class Tasks:
    """The tasks of an environment whose episodes are one reply each, as TRL and `generate` need them.

    `task` is an id with `KEY=VALUE` arguments. Raises `ValueError` if it names no environment, or one whose episodes go
    on after a reply.
    """

    def __init__(self, task: str) -> None:
        if not task.split():
            raise ValueError(f"--env {task!r} names no environment")
        name, flags = with_arguments(task)
        self._env = envs.make(name, **envs.arguments(flags[1::2], envs.entry(name), "--env"))
        self._env.reset(seed=0)
        if not any(self._env.step(self._env.unwrapped.noop())[2:4]):
            raise ValueError(f"--env {task}: its episodes go on after a reply; name one whose episodes are one reply")

    def count(self, split: str) -> int:
        """Return the number of tasks of a split."""
        return count_tasks(self._env, split)

    def held_out(self, split: str, seed: int) -> list[int]:
        """Return the indices of the tasks that a run of `rl.train` with this seed is evaluated on."""
        return [ticket.index for ticket in tickets(self.count(split), HELD_OUT, 1, seed, split)]

    def prompt(self, split: str, index: int) -> list[dict[str, Any]]:
        """Return the messages that an episode opens with."""
        messages, _ = self._env.reset(seed=0, options={"split": split, "index": index})
        return [dict(message) for message in messages]

    def grade(self, split: str, index: int, reply: str) -> tuple[float, bool]:
        """Return the reward of a reply and whether it succeeds."""
        self._env.reset(seed=0, options={"split": split, "index": index})
        _, reward, _, _, info = self._env.step({"role": "assistant", "content": reply})
        return float(reward), bool(info["success"])


def greedy_success(model: Any, tokenizer: Any, tasks: Tasks, split: str, seed: int, length: int) -> float:
    """Return the share of the `HELD_OUT` tasks that the likeliest replies of at most `length` tokens solve."""
    import torch

    indices = tasks.held_out(split, seed)
    prompts = [tasks.prompt(split, index) for index in indices]
    inputs = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    was_training = model.training
    model.eval()
    with torch.no_grad():
        tokens = model.generate(**inputs, do_sample=False, max_new_tokens=length, pad_token_id=tokenizer.pad_token_id)
    model.train(was_training)
    replies = tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return sum(tasks.grade(split, *pair)[1] for pair in zip(indices, replies, strict=True)) / len(indices)


def train(args: Any, tasks: Tasks) -> dict[str, Any]:
    """Train until the largest `--success` or `--updates` is reached; return the curve and what it took."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    goals = sorted(args.success)
    tokenizer = AutoTokenizer.from_pretrained(args.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype="float32")
    began, curve = time.monotonic(), []

    class Evaluations(TrainerCallback):
        """Evaluates every `--every` updates and ends the run at the largest success asked for."""

        def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
            update, is_within = divmod(state.global_step, args.minibatches)
            if is_within or update % args.every:
                return
            success = greedy_success(model, tokenizer, tasks, "val", args.seed, args.tokens)
            curve.append({"update": update, "episodes": update * args.episodes, "success": success})
            control.should_training_stop = success >= goals[-1]

    def reward(completions: Sequence[Any], index: Sequence[int], **_: Any) -> list[float]:
        return [tasks.grade("train", i, reply[0]["content"])[0] for i, reply in zip(index, completions, strict=True)]

    rows = [{"prompt": tasks.prompt("train", index), "index": index} for index in range(tasks.count("train"))]
    before = greedy_success(model, tokenizer, tasks, "test", args.seed, args.tokens)
    settings = GRPOConfig(
        output_dir=args.folder,
        seed=args.seed,
        learning_rate=args.lr,
        lr_scheduler_type="constant",
        num_generations=GROUP,
        per_device_train_batch_size=args.episodes // args.minibatches,
        steps_per_generation=args.minibatches,
        max_completion_length=args.tokens,
        max_steps=args.updates * args.minibatches,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
    GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[Evaluations()],
    ).train()
    seconds, usage = time.monotonic() - began, os.times()
    reached = {f"{goal:g}": next((e["episodes"] for e in curve if e["success"] >= goal), None) for goal in goals}
    return {
        **{"trl": version("trl"), "seed": args.seed, "lr": args.lr, "seconds": round(seconds, 1)},
        **{"cpu_seconds": round(usage.user + usage.system, 1), "success_before": before},
        **{"success_after": greedy_success(model, tokenizer, tasks, "test", args.seed, args.tokens)},
        **{"episodes": curve[-1]["episodes"] if curve else 0, "reached": reached, "curve": curve},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Train and print what it took."""
    parser = Parser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", metavar="FOLDER", required=True)
    parser.add_argument("--env", metavar="TASK", default="math/Arithmetic-v0 style=short")
    parser.add_argument("--success", type=real_number(0, 1), nargs="+", default=[0.9])
    parser.add_argument("--every", type=whole_number(1), default=10, help="updates between evaluations")
    parser.add_argument("--updates", type=whole_number(1), default=300, help="at most so many (default: 300)")
    parser.add_argument("--episodes", type=whole_number(GROUP), default=256, help="of an update (default: 256)")
    parser.add_argument("--minibatches", type=whole_number(1), default=4)
    parser.add_argument("--lr", type=real_number(0), default=7.5e-5)
    parser.add_argument("--tokens", type=whole_number(1), default=8, help="of a reply, at most (default: 8)")
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--folder", default="runs/trl", help="the trainer's output folder")
    args = parser.parse_args(argv)
    if find_spec("trl") is None:
        parser.error(f"TRL is not installed here: {install_command('test-trl')}")
    if not Path(args.model, "config.json").exists():
        parser.error(f"--model {args.model!r}: holds no config.json; name a model's folder")
    if args.episodes % (GROUP * args.minibatches):
        parser.error(
            f"--episodes {args.episodes}: must be a multiple of {GROUP} times --minibatches {args.minibatches}"
        )
    with user_input():
        tasks = Tasks(args.env)
    print(json.dumps(train(args, tasks)))
    return 0


if __name__ == "__main__":
    run(main)
