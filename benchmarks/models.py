"""What the chat template of each model family does to a dialogue of eight turns: the table of `docs/models.md`.

.ci/tokenizers DIR                 # fetches tokenizers and templates; no weights are needed
python -m benchmarks.models DIR    # writes benchmarks/results/models.json
python docs/generate.py            # writes the table
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agents.render import Renderer
from agents.reply import calls
from benchmarks.support.families import FAMILIES, Family, load
from benchmarks.support.family_dialogues import KINDS, play, token_counts, tools_of, way
from benchmarks.support.record import RESULTS, provenance, save

RESULT = RESULTS / "models.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Play the dialogues of every family; write the result. Return 1 if a call was not read as it was written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder that .ci/tokenizers filled")
    parser.add_argument("--out", type=Path, default=RESULT, metavar="FILE", help="where to write the result")
    args = parser.parse_args(argv)
    if not (args.folder / "chat_templates").is_dir():
        parser.error(f"{args.folder} holds no tokenizers: run .ci/tokenizers {args.folder}")
    families = []
    for family in FAMILIES:
        families.append(measure(Renderer(load(args.folder, family)), family))
        print(families[-1], flush=True)
    save(args.out, {"families": families, **provenance(torch.device("cpu"), [])})
    return int(any(entry["unread"] for entry in families))


def measure(renderer: Renderer, family: Family) -> dict[str, Any]:
    """Return what the table says of a family, ready for JSON.

    `dialogues` has, for each kind, how many turns were extended, bridged and fresh, and the tokens that were computed
    beside the fewest possible.
    """
    template = renderer.template
    dialogues, unread = {}, 0
    for kind in KINDS:
        if kind == "reasoning" and not family.reasoning:
            continue
        tools, turns = tools_of(kind), list(play(renderer, family, kind))
        computed, minimum = token_counts(renderer, turns, tools)
        ways = Counter(way(renderer, family, turn, tools) for turn in turns)
        unread += sum(calls(turn.reply) != turn.wanted for turn in turns)
        dialogues[kind] = {"ways": dict(ways), "tokens": computed, "fewest": minimum}
    return {
        "name": family.name,
        "template": family.template or "the tokenizer's own",
        "vocabulary": family.tokenizer if family.is_borrowed else "",
        "shows_tools": template.shows_tools,
        "shows_calls": template.shows_calls,
        "single_calls": template.has_single_calls,
        "form": template.form.name,
        "own_form": family.form,
        "stops": renderer.tokenizer.convert_ids_to_tokens(list(renderer.stop)),
        "dialogues": dialogues,
        "unread": unread,
    }


if __name__ == "__main__":
    sys.exit(main())
