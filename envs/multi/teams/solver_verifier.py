"""One player solves a problem, the other checks the solution and sends it back if it is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import envs
from envs.env import Env
from envs.episodes.guide import THINKING, Guide
from envs.games.game import check_range
from envs.grading.choice import find_choice
from envs.grading.lines import last_line
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.multi.teams.score_rule import score_rule
from envs.types import Message, Task, assistant, final_text, text, user

SOLVER, VERIFIER = "solver", "verifier"
HEADING = "solution:"  # what stands after a line with this word is shown to the verifier
MAX_SOLUTION, MAX_REASON = 4000, 300  # characters that are passed on
VERDICTS = {"correct": True, "wrong": False}
SYNONYMS = {
    **dict.fromkeys(("right", "true", "accept", "accepted", "y", "yes"), True),
    **dict.fromkeys(("incorrect", "false", "reject", "rejected", "n", "no"), False),
}
_LABEL = re.compile(r"\W*(?:(?:my|the|final)\s+)*verdict\W+(?:is\W+)?", re.I)
_DENIAL = re.compile(r"\W*(?:(?:it|this|that|the (?:solution|answer)) )?(?:is )?not (?:correct|right|true)\W*", re.I)
_WORD = re.compile(r"\W*\w+(?=\s?[-–—.,;*])")
UNREADABLE = "No single answer can be read from this reply."
NO_VERDICT = "Your last reply was no verdict, so the solution went back without a reason."


class SolverVerifier(MultiEnv):
    """Solve a problem in a team of two: a solver writes solutions, a verifier accepts one or sends it back.

    Observation: both read the problem; the verifier reads the solution, the solver the verifier's verdict.
    Action: the solver's reply answers as the problem's own environment asks; what stands after a last line `Solution:`,
    or else the last line only, goes to the verifier. The verifier's last line is `correct` or `wrong: REASON`, of which
    at most 300 characters go to the solver. In short style `y` and `n`.
    Reward: at the end, for both, `team`: (1 - `local`) times 1 if a right solution has been accepted. For each seat
    `local`: for the solver `local` times 1 if its last solution is right, for the verifier `local` times the share of
    its replies that are a true verdict. Both are named rewards.
    Episode end: terminated when a solution is accepted, or when the last of `attempts` solutions is rejected. A reply
    that is no verdict rejects the solution without a reason. Success: a right solution is accepted, for both.
    Arguments: `problems`, the id of an environment that one reply answers, such as math/GSM8K-v0; `problem_args`, its
    arguments; `attempts`; `local`, from 0 to 1.
    Seats: `solver`, `verifier`; they win together. Opponents: `oracle` (the default), which solves and judges rightly.
    Splits: those of the problems. State: the problem, the attempts and the solution that is to be judged.
    Source and licence: the setting of solver and verifier pairs, as in Stronger Together (arXiv:2510.11062), section 4,
    for mathematics; own code. Version history: v0.
    """

    seats = (SOLVER, VERIFIER)
    teammates = True
    default_opponent = "oracle"

    def __init__(
        self,
        *,
        problems: str = "math/Arithmetic-v0",
        problem_args: Mapping[str, Any] | None = None,
        attempts: int = 3,
        local: float = 0.5,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        check_range("attempts", attempts, range(1, 21))
        if not 0 <= local <= 1:
            raise ValueError(f"local {local!r} is outside 0..1")
        super().__init__(max_turns=attempts if max_turns is None else max_turns, **limits)
        self.local = float(local)
        problem = envs.make(problems, **{"style": self.style, **(problem_args or {})}).unwrapped
        if not isinstance(problem, Env) or problem.max_turns > 1 or problem.tools:
            raise ValueError(f"problems {problems!r} is no environment that one reply answers, without tools")
        self.problem: Env = problem
        self.blocking = problem.blocking

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of the problems."""
        return self.problem.load(split)

    def start(self) -> Round:
        """Show the problem to the solver."""
        self.attempts = self.verdicts = self.true_verdicts = 0
        self.solution, self.is_right, self.is_readable, self.was_unclear = "", False, True, False
        self._problem_seed = int(self.np_random.integers(2**31))
        self.question = self._open_problem()
        return Round({SOLVER: (user(self.question),)}, to_move=(SOLVER,))

    def reply(self, replies: Mapping[str, Message]) -> Round:
        """Grade a solution and show it to the verifier, or act on a verdict."""
        ((seat, message),) = replies.items()
        if seat == SOLVER:
            return self._take_solution(message)
        verdict, reason = read_verdict(final_text(message))
        self.verdicts += 1
        self.true_verdicts += verdict is self.is_right
        self.was_unclear = verdict is None
        invalid = (seat,) if verdict is None else ()
        if verdict or self.attempts == self.max_turns:
            return self._finish(bool(verdict), invalid)
        if self.style == "full":
            rejection = f"The verifier says that your solution is wrong{f': {reason!r}' if reason else '.'}"
            news = (
                rejection
                if verdict is not None
                else "The verifier's reply is no verdict; your solution is not accepted."
            )
            news = f"{news}\nSolve the problem again.\n{self.question}"
        else:
            news = f"n {reason}".strip() + f"\n{self.question}"
        return Round({SOLVER: (user(news),)}, to_move=(SOLVER,), invalid=invalid)

    def guide(self, seat: str) -> Guide:
        """Say what the seat does for the team, with what the problem's own environment asks."""
        own = self.problem.guide()
        task = own.goal if own else "Answer the problem."
        thinking = own.thinking or THINKING.format(noun=own.noun) if own else "You may think first."
        if seat == SOLVER:
            return Guide(
                goal=(
                    f"You are the solver in a team of two. {task} Your teammate, the verifier, reads the problem and "
                    "your solution and either accepts it or sends it back to you. You both succeed when the verifier "
                    "accepts a right solution."
                ),
                rules="\n\n".join(
                    filter(None, (own.rules if own else "", self._solution_rule(), self._score_rule(seat)))
                ),
                reply=own.reply if own else "Reply with your answer.",
                thinking=f"{thinking} What you write before the solution is not shown to the verifier.",
                example=own.example if own else "The answer is 42",
                ending="The episode ends when the verifier accepts a solution or rejects your last one.",
                heading="The problem:",
            )
        return Guide(
            goal=(
                "You are the verifier in a team of two. Your teammate, the solver, has written a solution to the "
                "problem below. Accept it if it is right, and send it back if it is wrong. You both succeed when you "
                "accept a right solution."
            ),
            rules=(
                f"The solver has been told: {task} If you send a solution back, the solver reads your reason and tries "
                f"again.\n\n{self._score_rule(seat)}"
            ),
            reply=(
                "Reply with the word correct to accept the solution, or with wrong and a colon and your reason, of at "
                f"most {MAX_REASON} characters, such as: wrong: the sum is too small."
            ),
            noun="verdict",
            example="correct",
            ending="The episode ends when you accept a solution, or with your last reply.",
            invalid="Any other reply sends the solution back without a reason and counts as a wrong verdict.",
            heading="The problem and the solution:",
        )

    def state(self) -> str:
        """Return the task, the number of attempts, and the solution that waits for a verdict."""
        return f"{self.task.id} {self.attempts} {self.verdicts} {self.solution}"

    def oracle(self, seat: str) -> Message:
        """Solve rightly, and judge rightly."""
        if seat == SOLVER:
            self._open_problem()
            return next(iter(self.problem.oracle()))
        if self.style == "full":
            return assistant("correct" if self.is_right else "wrong: it does not answer the problem")
        return assistant("y" if self.is_right else "n")

    def random(self, seat: str, rng: np.random.Generator) -> Message:
        """Solve or judge at random."""
        if seat == VERIFIER:
            return assistant(("correct", "wrong")[int(rng.integers(2))])
        self._open_problem()
        return self.problem.random(rng)

    def close(self) -> None:
        """Close the problem's environment."""
        self.problem.close()

    def _score_rule(self, seat: str) -> str:
        own = {
            SOLVER: "if your last solution is right",
            VERIFIER: "times the share of your verdicts that are right",
        }
        return score_rule(self.local, own[seat])

    def _solution_rule(self) -> str:
        return (
            "The verifier sees the last line of your reply. To show it more, such as the steps of a calculation, write "
            "a line with the word Solution: and below it what the verifier shall read."
        )

    def _open_problem(self) -> str:
        """Begin the problem anew and return its text without the guide."""
        options = {"split": self.split, "index": self.index}
        messages, _ = self.problem.reset(seed=self._problem_seed, options=options)
        guide = self.problem.guide() if self.style == "full" else None
        opening = "\n".join(text(message) for message in messages)
        return (
            opening.removeprefix(f"{guide.format(self.problem.max_turns)}\n\n{guide.heading}\n") if guide else opening
        )

    def _take_solution(self, message: Message) -> Round:
        self.attempts += 1
        reply = final_text(message)
        self.solution = shown_part(reply)
        self._open_problem()
        _, _, _, _, info = self.problem.step(message)
        self.is_right, self.is_readable = bool(info.get("success", False)), info["valid"]
        if self.style == "full":
            heading = f"The solver's solution, attempt {self.attempts} of {self.max_turns}:"
            notes = [NO_VERDICT] * self.was_unclear + [self.question, "", heading, self.solution]
            news = "\n".join([*notes, *[UNREADABLE] * (not self.is_readable)])
        else:
            news = f"{self.question} {self.solution}"
        invalid = () if info["valid"] else (SOLVER,)
        return Round({VERIFIER: (user(news),)}, to_move=(VERIFIER,), invalid=invalid)

    def _finish(self, is_accepted: bool, invalid: Sequence[str]) -> Round:
        success = is_accepted and self.is_right
        team = (1 - self.local) * success
        own = {SOLVER: float(self.is_right), VERIFIER: self.true_verdicts / self.verdicts}
        parts = {seat: {"team": team, "local": self.local * share} for seat, share in own.items()}
        verdict, truth = "accepted" if is_accepted else "rejected", "right" if self.is_right else "wrong"
        cause = "" if self.is_readable else f": {UNREADABLE[0].lower()}{UNREADABLE[1:-1]}"
        end = f"The solution was {verdict}, and it is {truth}{cause}."
        return Round(
            {seat: (user(end),) for seat in self.seats} if self.style == "full" else {},
            {seat: sum(values.values()) for seat, values in parts.items()},
            success=dict.fromkeys(self.seats, success),
            invalid=invalid,
            parts=parts,
        )


def shown_part(reply: str) -> str:
    """Return what follows the last line `Solution:` of a reply, else its last line; at most 4,000 characters."""
    lines = reply.splitlines()
    marks = [place for place, line in enumerate(lines) if line.strip(" *#").lower() == HEADING]
    solution = "\n".join(lines[marks[-1] + 1 :]).strip() if marks else last_line(reply)
    return solution[-MAX_SOLUTION:] or "(nothing)"


def read_verdict(reply: str) -> tuple[bool | None, str]:
    """Return the verdict of a reply's last line, None for no or two verdicts, and the reason.

    The reason is what follows the colon, or else the line's first word, if that is the verdict: `Wrong - it is 142`.
    """
    line = last_line(reply)
    line = line[label.end() :] if (label := _LABEL.match(line)) else line
    head, colon, reason = line.partition(":")
    if not colon and (word := _WORD.match(line)) and find_choice(word[0], VERDICTS, SYNONYMS) is False:
        head, reason = word[0], line[word.end() :].lstrip(" .,;-–—*")
    verdict = False if _DENIAL.fullmatch(head) else find_choice(head, VERDICTS, SYNONYMS)
    return verdict, " ".join(reason.split())[:MAX_REASON]
