"""Write what the documentation shows of the code: the README's tables, `docs/environments.md` and `docs/methods.md`.

    python docs/generate.py           # write them
    python docs/generate.py --check   # say which are out of date, and fail if any is

It imports the package, so it runs with the Python of the virtual environment.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import runpy
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

import envs
from agents.scripted import oracle
from envs.benchmarks import BENCHMARKS, listing
from envs.benchmarks.cards import card
from envs.env import SPLITS, Env
from envs.rows import ROWS, Row
from envs.types import text
from rl.methods import options
from rl.methods import recipe as recipes
from rl.train.memory.estimate import Workload, estimate

ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by docs/generate.py from the code; change it there. -->\n"
HEADING = re.compile(r"^([A-Z][a-z ]+): ", re.MULTILINE)  # of a part of an environment's docstring
TITLE = re.compile(r"(?P<name>.+?) \((?P<source>[^()]+)\): (?P<what>.+)")  # the first line of a recipe's docstring
_SMALL = {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}
QWEN: dict[str, dict[str, Any]] = {  # the shapes of Qwen2.5
    "0.5 B": dict(_SMALL, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14),
    "1.5 B": dict(_SMALL, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12),
    "7 B": {
        **{"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28},
        **{"num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False},
    },
}
FLAGS: dict[str, dict[str, Any]] = {
    "none": {},
    "`--checkpoint-activations`": {"recompute": True},
    "and `--dtype bfloat16`": {"recompute": True, "itemsize": 2},
    "and `--lora 16`": {"recompute": True, "itemsize": 2, "rank": 16},
}
PAPER = re.compile(r"arXiv:(\d{4}\.\d{5})")
PAPER_LINK = r"[arXiv:\1](https://arxiv.org/abs/\1)"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check; the exit status is 1 if `--check` found something out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args(argv).check
    stale = {path: new for path, new in pages().items() if not path.exists() or path.read_text("utf-8") != new}
    for path, content in stale.items():
        print(f"{path.relative_to(ROOT)} {'is out of date: run python docs/generate.py' if check else 'written'}")
        if not check:
            path.write_text(content, encoding="utf-8")
    return int(check and bool(stale))


def pages() -> dict[Path, str]:
    """Every file that is generated, in whole or in part, and what it should hold."""
    large = ROOT / "docs" / "large_models.md"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    readme = _between(readme, "environments", _environments_table())
    readme = _between(readme, "methods", _methods_table())
    models = ROOT / "docs" / "models.md"
    results = ROOT / "docs" / "results.md"
    learnt = runpy.run_path(str(ROOT / "docs" / "learnt.py"))["table"]()
    claims = runpy.run_path(str(ROOT / "docs" / "claims.py"))["tables"]()
    families = runpy.run_path(str(ROOT / "docs" / "families.py"))["tables"]()
    return {
        ROOT / "README.md": readme,
        models: _between(models.read_text(encoding="utf-8"), "families", families),
        results: _between(_between(results.read_text(encoding="utf-8"), "learnt", learnt), "claims", claims),
        ROOT / "docs" / "environments.md": _environments_page(),
        ROOT / "docs" / "prompts.md": runpy.run_path(str(ROOT / "docs" / "prompts.py"))["page"](),
        ROOT / "docs" / "methods.md": _methods_page(),
        ROOT / "docs" / "large_models.md": _between(large.read_text(encoding="utf-8"), "memory", _memory_table()),
    }


def _between(page: str, name: str, content: str) -> str:
    """`page` with `content` between the marks called `name`."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not marked.search(page):
        raise ValueError(f"no <!-- {name} --> ... <!-- /{name} --> to write between")
    return marked.sub(lambda match: match[1] + content + match[2], page)


def _environments_table() -> str:
    lines = []
    for row in ROWS:
        env = _made(row)
        link = f"[`{row.id}`](docs/environments.md#{_anchor(row.id)})"
        lines.append((link, row.line, str(env.max_turns), _sizes(row, env)))
    return _table(("id", "the task", "turns", "tasks: train / val / test"), lines)


def _methods_table() -> str:
    lines = []
    for name, line in recipes.catalogue():
        title = TITLE.fullmatch(line)
        assert title, f"rl/methods/recipes/{name}.py: its docstring must begin 'Name (source): what it is.'"
        lines.append((f"[`{name}`](docs/methods.md#{name})", _linked(title["source"]), title["what"]))
    return _table(("`--algo`", "source", "in one line"), lines)


def _environments_page() -> str:
    parts = [
        NOTE,
        "# Environments\n",
        "Each answers to `gymnasium.make(id)` once `envs` is imported, to `--env id`, and to `python -m envs play id`. "
        "Arguments are keywords there and `--env-arg key=value` on the command line. All take `style`, `max_turns`, "
        "`max_seconds` and `render_mode` besides their own. `style=full`, the default, begins with instructions in "
        "sentences ([all of them](prompts.md)); the transcript is the oracle's, on the first test task, in "
        "`style=short`.\n",
    ]
    for row in ROWS:
        env = _made(row)
        parts += [f"## {row.id}\n", _docstring(type(env)), f"- **Tasks** (train / val / test): {_sizes(row, env)}\n"]
        if own := _arguments(type(env)):
            parts[-1] += f"- **Signature**: `envs.make({', '.join([repr(row.id), *own])})`\n"
        if not (row.data or row.extra):
            parts.append(f"```text\n{_transcript(_made(row, style='short'))}```\n")
    return "\n".join([*parts, *_benchmarks()])


def _benchmarks() -> Iterator[str]:
    """The benchmarks with their entries, and the cards of the environments in them."""
    yield "## Benchmarks\n"
    yield (
        "Named sets of tasks: `rl.evaluate --benchmark core-v2` plays all of one. The digest is over all that an "
        "episode opens with and its answer; tasks that are not those on record are refused. Entries whose files or "
        "packages are not there are left out, and the result says so.\n"
    )
    for benchmark in listing.as_json():
        yield f"### {benchmark['name']}\n"
        line = benchmark["line"]
        yield f"{line[0].upper()}{line[1:]}.\n"
        lines = [
            (_code(told["env"]), _code(told["arguments"]), told["split"], str(told["tasks"] or "all"), _digest(told))
            for told in benchmark["entries"]
        ]
        yield _table(("environment", "arguments", "split", "tasks", "digest"), lines)
    yield "### Cards\n"
    names = dict.fromkeys(entry.env for benchmark in BENCHMARKS for entry in benchmark.entries)
    cards = [(f"`{name}`", *(_linked(words).replace("|", "\\|") for words in card(name))) for name in names]
    yield _table(("environment", "licence", "source", "official rule", "pitfalls"), cards)


def _digest(told: dict[str, Any]) -> str:
    return _code(told["digest"]) or f"as the files are{listing.needs(told)}"


def _code(word: str | None) -> str:
    return f"`{word}`" if word else ""


def _methods_page() -> str:
    parts = [
        NOTE,
        "# Methods and parts\n",
        "A method is a file in `rl/methods/recipes/`: one part for each of twenty slots "
        "([how to add one](add_a_method.md)). Below each stands what sets it apart from the bare `Recipe()`, in the "
        "words of the command line, and at the end every part there is. `--algo NAME` takes a method as it stands; "
        "a slot's flag replaces one part of it: `--algo dapo --penalty kl_k3:coef=0.01`.\n",
    ]
    parts += [
        '"Compared" counts the cases of another implementation\'s numbers, or of hand-made ones, in `tests/vectors/` '
        "that a method's estimator and loss agree with. \"Adds\" is what the bundled model's training success, "
        "averaged over equally many sampled tokens, gained over the method's parent on a miniature task: mean of "
        "paired seeds and 95 % interval ([how](../benchmarks/methods.py), [figures](../benchmarks/results)).\n",
        _evidence_table(),
    ]
    evidence = runpy.run_path(str(ROOT / "docs" / "evidence.py"))
    for name, _ in recipes.catalogue():
        texts = _changes(name)
        flags = " ".join(f"--{slot} {word}" for slot, word in texts.items())
        about = _linked(inspect.getdoc(sys.modules[f"rl.methods.recipes.{name}"]) or "")
        parts += [f"## {name}\n", f"{about}\n", f"```text\n{flags or '(nothing)'}\n```\n"]
    for slot in recipes.SLOTS:
        number = "any number of parts" if slot in recipes.MANY else "one part"
        parts += [f"## The slot `{slot}`: {number}\n", _parts_table(slot)]
    parts += [
        "## The numbers that methods are compared with\n",
        "Files of `tests/vectors/`, made by running the authors' own functions or worked out by hand, and their cases. "
        "Why some cases are not compared stands in `tests/support/vector_cases.py`.\n",
        _table(("file", "methods", "cases"), evidence["compared"]()),
        "Files of the same collection that nothing here is compared with:\n",
        _table(("file", "why not"), [(f"`{file}`", why) for file, why in sorted(evidence["left_out"]().items())]),
    ]
    return "\n".join(parts)


def _changes(name: str) -> dict[str, str]:
    """The slots that a recipe fills otherwise than the bare one, and with what."""
    plain = recipes.words(recipes.Recipe())
    words = {slot: word for slot, word in recipes.words(recipes.load(name)).items() if word != plain[slot]}
    return {slot: word if isinstance(word, str) else " ".join(word) or "none" for slot, word in words.items()}


def _evidence_table() -> str:
    evidence = runpy.run_path(str(ROOT / "docs" / "evidence.py"))
    lines = []
    for name, line in recipes.catalogue():
        title = TITLE.fullmatch(line)
        assert title
        slots = ", ".join(_changes(name))
        lines.append(
            (
                f"[`{name}`](#{name})",
                _linked(title["source"]),
                slots,
                evidence["vectors"](name),
                evidence["measured"](name),
            )
        )
    return _table(("method", "source", "slots changed", "compared", "adds"), lines)


def _parts_table(slot: str) -> str:
    module = importlib.import_module(f"rl.methods.parts.{slot}")
    lines = []
    for name, part in recipes.parts_of(module).items():
        bound = [
            key if option.default is option.empty else f"{key}={_word(option.default)}"
            for key, option in options.of(part).items()
        ]
        what = (inspect.getdoc(part) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append((f"`{name}`", f"`{', '.join(bound)}`" if bound else "", _linked(what)))
    return _table(("part", "options", "what it does"), lines) if lines else "No part yet; the slot may be empty.\n"


def _memory_table() -> str:
    """The estimate for models that are made from their shapes, without weights."""
    lines = []
    for name, shape in QWEN.items():
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen2", **shape))
        for flags, changes in FLAGS.items():
            told = estimate(model, Workload(16384, 2048, 256, 8, slots=256, on_gpu=True, **changes))
            state, sampling = told.gradients + told.optimizer, told.sampler + told.cache
            sizes = (told.weights, state, sampling, told.activations, told.logits, told.total)
            lines.append((name, flags, *(f"{size / 2**30:.1f}" for size in sizes)))
    head = ("parameters", "flags", "weights", "gradients, optimiser", "sampling", "activations", "logits", "in all")
    return _table(head, lines)


def _made(row: Row, **arguments: Any) -> Env:
    env = envs.make(row.id, **arguments).unwrapped
    assert isinstance(env, Env)
    return env


def _sizes(row: Row, env: Env) -> str:
    if row.data:
        return f"the files in `{row.data}/` under `--data-root`"
    if row.extra:
        return f"with `pip install -e '.[{row.extra}]'`"
    return " / ".join(str(len(env.load(split))) for split in SPLITS)


def _docstring(kind: type) -> str:
    """The docstring with its headings as a list."""
    about = inspect.getdoc(kind) or ""
    summary, *headed = HEADING.split(about.replace("Version history: ", "\nVersion history: "))
    pairs = zip(headed[::2], headed[1::2], strict=True)
    items = [f"- **{heading}**: {' '.join(words.split())}\n" for heading, words in pairs]
    return _linked(f"{summary.strip()}\n\n{''.join(items)}").rstrip("\n")


def _arguments(kind: type) -> list[str]:
    parameters = inspect.signature(kind).parameters.values()
    return [f"{p.name}={p.default!r}" for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "max_turns"]


def _transcript(env: Env) -> str:
    messages, _ = env.reset(seed=0, options={"split": "test", "index": 0})
    lines = [f"{message['role']}: {text(message)}" for message in messages]
    for reply in oracle(env, 0):
        messages, reward, terminated, truncated, _ = env.step(reply)
        lines += [f"{message['role']}: {text(message)}" for message in (reply, *messages)]
        if terminated or truncated:
            return "\n".join(lines) + f"\n(reward {reward:g})\n"
    raise ValueError(f"the oracle of {type(env).__name__} gives up")


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ("---",) * len(head)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *lines))


def _linked(words: str) -> str:
    return PAPER.sub(PAPER_LINK, words)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main())
