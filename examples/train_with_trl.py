"""Train on a Turnwise environment inside TRL's GRPOTrainer, by its `environment_factory`.

    pip install 'trl>=1.16'
    python examples/train_with_trl.py --model Qwen/Qwen3-0.6B --env games/GuessNumber-v0

TRL samples, parses the calls of the tool `reply`, and trains. The model must be able to call tools, in a chat template
whose calls TRL can read.
"""

import argparse

from envs.adapters.trl import environment_class, rows


def trainer(env: str, model, tokenizer=None, *, tasks: int = 1000, **settings):
    """Return a GRPOTrainer for a model, or the name of one; `settings` are those of GRPOConfig."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    return GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=GRPOConfig(report_to="none", **settings),
        train_dataset=Dataset.from_list(rows(env, tasks)),
        environment_factory=environment_class(env),
    )


def main() -> None:
    """Train, and save the model in the output folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--env", default="games/GuessNumber-v0")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", default="runs/trl")
    args = parser.parse_args()
    run = trainer(args.env, args.model, max_steps=args.steps, output_dir=args.out, num_generations=8)
    run.train()
    run.save_model(args.out)


if __name__ == "__main__":
    main()
