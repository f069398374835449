"""The tools that plans are made of: deterministic functions of texts, numbers, lists and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from envs.tools.plans import plan_values as values
from envs.tools.plans.plan_values import ValueFault, fits


class PlanTool(NamedTuple):
    """A tool of plans.

    Attributes:
        name: Its name.
        inputs: Types of its arguments by name: "text", "number", "list" (of texts and numbers) or "table".
        output: Type of its result, which is also the name under which later steps refer to it.
        about: What it does, in a sentence that begins with a verb.
        phrase: The step as a part of a request, with `{argument}` for each argument.
        function: Computes the result from the arguments in their order. Raises ValueFault.
    """

    name: str
    inputs: Mapping[str, str]
    output: str
    about: str
    phrase: str
    function: Callable[..., Any]

    def run(self, arguments: Mapping[str, Any]) -> Any:
        """Return the result. Raises ValueFault for values that it has no result for, or one that is too large."""
        result = self.function(*(arguments[name] for name in self.inputs))
        if not fits(result, self.output):
            raise ValueFault("the result is too large")
        return result


def _tool(name: str, inputs: str, output: str, about: str, phrase: str, function: Callable[..., Any]) -> PlanTool:
    pairs = ((name, kind) for name, _, kind in (part.partition(":") for part in inputs.split()))
    return PlanTool(name, dict(pairs), output, about, phrase, function)


PLAN_TOOLS = {
    tool.name: tool
    for tool in (
        _tool(
            "upper_case",
            "text:text",
            "text",
            "Writes a text in capital letters.",
            "write {text} in capital letters",
            str.upper,
        ),
        _tool(
            "title_case",
            "text:text",
            "text",
            "Begins each word of a text with a capital letter.",
            "begin each word of {text} with a capital letter",
            lambda text: " ".join(map(str.capitalize, text.split())),
        ),
        _tool(
            "reverse_text",
            "text:text",
            "text",
            "Writes a text backwards.",
            "write {text} backwards",
            lambda text: text[::-1],
        ),
        _tool(
            "reverse_words",
            "text:text",
            "text",
            "Puts the words of a text in the opposite order.",
            "put the words of {text} in the opposite order",
            lambda text: " ".join(text.split()[::-1]),
        ),
        _tool(
            "remove_vowels",
            "text:text",
            "text",
            "Removes the vowels a, e, i, o and u from a text.",
            "remove the vowels from {text}",
            lambda text: re.sub("[aeiouAEIOU]", "", text),
        ),
        _tool(
            "remove_spaces",
            "text:text",
            "text",
            "Removes the spaces from a text.",
            "remove the spaces from {text}",
            lambda text: text.replace(" ", ""),
        ),
        _tool(
            "initials",
            "text:text",
            "text",
            "Takes the first letter of each word of a text.",
            "take the first letter of each word of {text}",
            lambda text: "".join(word[0] for word in text.split()),
        ),
        _tool(
            "first_words",
            "text:text number:number",
            "text",
            "Takes the first words of a text, as many as number says.",
            "take the first {number} words of {text}",
            lambda text, n: " ".join(text.split()[: values.as_length(n)]),
        ),
        _tool(
            "replace_word",
            "text:text old:text new:text",
            "text",
            "Replaces every word old of a text by new.",
            "replace the word {old} by {new} in {text}",
            values.replace_word,
        ),
        _tool(
            "join_texts",
            "first:text second:text",
            "text",
            "Writes two texts as one, with a space between them.",
            "write {second} after {first}, with a space between them",
            lambda first, second: f"{first} {second}",
        ),
        _tool(
            "count_words",
            "text:text",
            "number",
            "Counts the words of a text.",
            "count the words of {text}",
            lambda text: len(text.split()),
        ),
        _tool(
            "count_characters",
            "text:text",
            "number",
            "Counts the characters of a text, spaces included.",
            "count the characters of {text}, spaces included",
            len,
        ),
        _tool(
            "count_letter",
            "text:text letter:text",
            "number",
            "Counts how often a letter is in a text, in either case.",
            "count how often the letter {letter} is in {text}, in either case",
            values.count_letter,
        ),
        _tool(
            "split_words",
            "text:text",
            "list",
            "Makes a list of the words of a text.",
            "make a list of the words of {text}",
            str.split,
        ),
        _tool(
            "add",
            "first:number second:number",
            "number",
            "Adds two numbers.",
            "add {second} to {first}",
            lambda first, second: first + second,
        ),
        _tool(
            "subtract",
            "first:number second:number",
            "number",
            "Subtracts the second number from the first.",
            "subtract {second} from {first}",
            lambda first, second: first - second,
        ),
        _tool(
            "multiply",
            "first:number second:number",
            "number",
            "Multiplies two numbers.",
            "multiply {first} by {second}",
            lambda first, second: first * second,
        ),
        _tool(
            "remainder",
            "first:number second:number",
            "number",
            "Takes the remainder of the first number divided by the second.",
            "take the remainder of {first} divided by {second}",
            values.remainder,
        ),
        _tool(
            "square",
            "number:number",
            "number",
            "Multiplies a number by itself.",
            "square {number}",
            lambda number: number * number,
        ),
        _tool(
            "spell_digits",
            "number:number",
            "text",
            "Writes each digit of a number from 0 to 9999 as a word.",
            "write each digit of {number} as a word",
            values.spell_digits,
        ),
        _tool(
            "sort_list",
            "list:list",
            "list",
            "Sorts a list by the letters of its entries.",
            "sort {list} by the letters of its entries",
            lambda entries: sorted(map(str, entries)),
        ),
        _tool(
            "reverse_list",
            "list:list",
            "list",
            "Puts a list in the opposite order.",
            "put {list} in the opposite order",
            lambda entries: entries[::-1],
        ),
        _tool(
            "unique_entries",
            "list:list",
            "list",
            "Keeps the first of equal entries of a list.",
            "remove the repeated entries from {list}",
            lambda entries: list(dict.fromkeys(entries)),
        ),
        _tool(
            "count_entries", "list:list", "number", "Counts the entries of a list.", "count the entries of {list}", len
        ),
        _tool(
            "take_entry",
            "list:list number:number",
            "text",
            "Takes the entry of a list with a number, from 1, as a text.",
            "from {list}, take the entry whose number, counted from 1, is {number}, as a text",
            values.take_entry,
        ),
        _tool(
            "longest_entry",
            "list:list",
            "text",
            "Takes the longest entry of a list, the first of several.",
            "take the longest entry of {list}",
            values.longest_entry,
        ),
        _tool(
            "join_entries",
            "list:list separator:text",
            "text",
            "Writes the entries of a list as a text, with a separator between them.",
            "write the entries of {list} as a text, with {separator} between them",
            lambda entries, separator: separator.join(map(str, entries)),
        ),
        _tool(
            "load_table",
            "name:text",
            "table",
            "Loads a table: staff (columns name, city, age), stock (item, shelf, pieces) "
            "or trips (rider, goal, distance).",
            "load the table {name}",
            values.load_table,
        ),
        _tool(
            "keep_rows",
            "table:table column:text value:text",
            "table",
            "Keeps the rows of a table that have a value in a column.",
            "keep the rows of {table} whose column {column} is {value}",
            values.keep_rows,
        ),
        _tool(
            "rows_above",
            "table:table column:text number:number",
            "table",
            "Keeps the rows of a table whose column is above a number.",
            "keep the rows of {table} whose column {column} is above {number}",
            values.rows_above,
        ),
        _tool(
            "sort_rows",
            "table:table column:text",
            "table",
            "Sorts the rows of a table by a column, the smallest first.",
            "sort the rows of {table} by the column {column}, the smallest first",
            values.sort_rows,
        ),
        _tool(
            "column_values",
            "table:table column:text",
            "list",
            "Makes a list of a column of a table.",
            "make a list of the column {column} of {table}",
            values.column_values,
        ),
        _tool(
            "sum_column",
            "table:table column:text",
            "number",
            "Adds up a column of a table.",
            "add up the column {column} of {table}",
            lambda table, column: sum(values.column_numbers(table, column)),
        ),
        _tool("count_rows", "table:table", "number", "Counts the rows of a table.", "count the rows of {table}", len),
    )
}
