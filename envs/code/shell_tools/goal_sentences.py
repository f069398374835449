"""The goals of the shell as whole sentences, made from their short texts."""

from __future__ import annotations

import re

# Patterns of the texts of `envs.code.shell_tools.goals`, and their sentences.
SENTENCES = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"make folder (\S+)", "Create an empty folder {0}."),
        (r"make (\S+)", "Create an empty file {0}."),
        (r"delete the largest file in (\S+)", "Delete the largest file in the folder {0}."),
        (
            r"delete every (\S+) under (\S+)",
            "Delete every file whose name ends in {0}, in the folder {1} and in all folders inside it.",
        ),
        (r"delete (\S+)", "Delete the file {0}."),
        (r"put (\S+) in (\S+)", "Create a file {1} that holds one line: {0}"),
        (r"put (\S+) and then (\S+) in (\S+)", "Create a file {2} with the content of {0} followed by that of {1}."),
        (r"put the sorted lines of (\S+) in (\S+)", "Create a file {1} with the lines of {0} in alphabetical order."),
        (
            r"put the most frequent line of (\S+) in (\S+)",
            "Create a file {1} that holds one line: the line that occurs most often in {0}.",
        ),
        (r"put the first line of (\S+) in (\S+)", "Create a file {1} with the first line of {0}."),
        (r"put the first (\d+) lines of (\S+) in (\S+)", "Create a file {2} with the first {0} lines of {1}."),
        (r"add the line (\S+) to (\S+)", "Add the line {0} at the end of the file {1}."),
        (r"copy (\S+) to (\S+)", "Copy the file {0} to a new file {1}."),
        (r"rename (\S+) to (\S+)", "Rename the file {0} to {1}."),
        (
            r"rename each file in (\S+) to the word in it",
            "Each file in the folder {0} holds one word. Rename each of them, in its folder, to the word that it "
            "holds.",
        ),
        (
            r"move every (\S+) under (\S+) into (\S+)",
            "Move every file whose name ends in {0}, from the folder {1} and all folders inside it, directly into the "
            "folder {2}.",
        ),
        (
            r"move the file with (\S+) into (\S+)",
            "One file, whose name you are not told, holds the word {0}. Move it into the folder {1}.",
        ),
        (r"move (\S+) into (\S+)", "Move the file {0} into the folder {1}."),
        (r"make (\S+) executable", "Make the file {0} executable for everybody: its mode should be 755."),
        (
            r"let only the owner read and write (\S+)",
            "Let only the owner read and write the file {0}: its mode should be 600.",
        ),
        (
            r"make (\S+) hold the number of lines with (\S+) in all (\S+) under (\S+)",
            "Create a file {0} that holds one number: how many lines contain {1} in all files whose names end in {2}, "
            "in the folder {3} and all folders inside it together.",
        ),
        (
            r"make (\S+) hold the number of lines with (\S+) in (\S+)",
            "Create a file {0} that holds one number: how many lines of the file {2} contain {1}.",
        ),
        (
            r"make (\S+) in the folder that (\S+) names",
            "The file {1} holds the path of a folder that may not exist yet. Create an empty file {0} in this folder.",
        ),
        (
            r"make (\S+) list each word of (\S+) and its count, as `(\S+ \d+)`, in order of the words",
            "Create a file {0} with one line for each different word of the file {1}: the word, a space and how often "
            "it occurs, such as `{2}`. Sort the lines by the words in alphabetical order.",
        ),
        (r"replace each (\S+) by (\S+) in (\S+)", "In the file {2}, replace every occurrence of {0} by {1}."),
    )
)


def goal_sentence(goal: str) -> str:
    """Return a goal's short text, such as `make ab.txt`, as a sentence."""
    for pattern, sentence in SENTENCES:
        if match := pattern.fullmatch(goal):
            return sentence.format(*match.groups())
    raise ValueError(f"no sentence for the goal {goal!r}")
