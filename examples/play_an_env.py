"""Play one episode of an environment with its oracle, with random replies, or yourself.

python examples/play_an_env.py games/FrozenLake-v0 --player random
"""

import argparse

import gymnasium

import envs  # noqa: F401 (registers the ids)
from agents import scripted
from envs.types import assistant, text


def main() -> None:
    """Print the messages of the episode and its return."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("id", nargs="?", default="games/GuessNumber-v0")
    parser.add_argument("--player", choices=["oracle", "random", "me"], default="oracle")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    env = gymnasium.make(args.id)
    messages, info = env.reset(seed=args.seed, options={"split": "test"})
    print(f"# {args.id}, task {info['task']}")
    replies = {
        "oracle": lambda: scripted.oracle(env, args.seed),
        "random": lambda: scripted.random(env, args.seed),
        "me": lambda: (assistant(input("> ")) for _ in iter(int, 1)),
    }[args.player]()

    total, over = 0.0, False
    while not over:
        for message in messages:
            print(f"{message['role']}: {text(message)}")
        reply = next(replies)
        print(f"assistant: {text(reply)}")
        messages, reward, terminated, truncated, info = env.step(reply)
        total, over = total + float(reward), terminated or truncated
    for message in messages:
        print(f"{message['role']}: {text(message)}")
    print(f"# {info['stop']}, success {info['success']}, return {total:g}")
    env.close()


if __name__ == "__main__":
    main()
