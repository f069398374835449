"""The program that is extracted from a reply."""

from __future__ import annotations

import time

import pytest

from envs.code.grading.extraction import MAX_CHARS, extract_code, extract_programs

DEF = "def f(a):\n    return a + 1\n"
PROMPT = 'from typing import List\n\n\ndef f(a: List) -> int:\n    """Add one."""\n'


def result_of(reply: str, **options: str) -> object:
    """The value of `f(2)` in the first program that compiles."""
    for source in extract_programs(reply, "f", **options):
        try:
            code = compile(source, "reply", "exec")
        except SyntaxError:
            continue
        names: dict = {}
        exec(code, names)
        return names["f"](2)
    return "nothing"


@pytest.mark.parametrize(
    "reply",
    [
        DEF,
        f"```python\n{DEF}```",
        f"```\n{DEF}```",
        f"```py\n{DEF}",
        f"Sure:\n```Python\n{DEF}```\nThis adds one.",
        f"```python\ndef f(a): return 0\n```\nNo, better:\n```python\n{DEF}```\n```python\nprint(f(3))\n```",
        f"Plan:\n```text\nloop\n```\n```python\n{DEF}```",
        f"```bash\npip install numpy\n```\nThen\n```python\n{DEF}```\n```json\n{{}}\n```",
        f'```python title="a.py"\n{DEF}```',
        f"```{{python}}\n{DEF}```",
        f"~~~python\n{DEF}~~~",
        f"````python\n{DEF}\n# ```\n````",
        f"```python\n{DEF}# as in ```text``` above\n```",
        f'```python\n{DEF[:-1]}\n\n\ndef g():\n    """\n    ```\n    g()\n    ```\n    """\n```',
        "1. So:\n\n     ```python\n     def f(a):\n         return a + 1\n     ```\n",
        f"```python\r\n{DEF}```\r\n",
        f"```text\n{DEF}```",
        f"```python\nimport math\n{DEF}```\nTest it with\n```\nassert f(1) == 2\n```",
        f"The function is this:\n{DEF}",
        "    def f(a):\n        return a + 1\n",
        "f = lambda a: a + 1",
        "def g(a):\n    return 1\n\ndef f(a):\n    return a + g(a)\n",
        "def f(a):\r\n    return a + 1\r\n",
    ],
)
def test_a_whole_program_is_extracted_from_fences_and_bare(reply: str) -> None:
    assert result_of(reply) == result_of(reply, prompt=PROMPT) == result_of(reply, params="a") == 3


@pytest.mark.parametrize(
    "reply",
    ["a+1", " a + 1 \n", "`a+1`", "```python\na+1\n```", "(a\n+1)", "a+1 # one more", "lambda a: a+1", "return a+1"],
)
def test_an_expression_or_a_body_is_the_function_where_its_parameters_are_known(reply: str) -> None:
    assert result_of(reply, params="a") == 3
    assert extract_programs("a+1", "f") == ()


@pytest.mark.parametrize(
    "reply",
    [
        "    return a + 1",
        "    b = a\n    return b + 1\n",
        "return a + 1",
        "b = a\n    return b + 1",
        "b = a\nreturn b + 1",
        "```python\n    return a + 1\n```",
        "\n    return a + 1\n\n\ndef main():\n    print('done'",
        "    return g(a)\n\n\ndef g(a):\n    return a + 1\n",
    ],
)
def test_a_continuation_of_the_prompt_is_extracted_with_or_without_its_indentation(reply: str) -> None:
    assert result_of(reply, prompt=PROMPT) == 3


def test_a_program_may_use_the_imports_of_the_prompt() -> None:
    assert result_of("```python\ndef f(a: List) -> int:\n    return a + 1\n```", prompt=PROMPT) == 3


@pytest.mark.parametrize("reply", ["", "\n\n", "```python\n```"])
def test_a_reply_without_a_program_gives_none(reply: str) -> None:
    assert extract_programs(reply, "f", prompt=PROMPT, params="a") == ()


def test_a_reply_that_is_too_long_has_no_program() -> None:
    assert extract_programs(DEF + "#" * MAX_CHARS, "f") == ()
    assert extract_programs("`" * (MAX_CHARS - 9), "f", params="a") is not None  # and no pattern takes long


def test_the_code_of_a_reply_is_its_last_block_or_all_of_it() -> None:
    assert extract_code("```python\na\n```\nor\n```\nb\n```") == "b\n"
    assert extract_code("a + 1") == "a + 1"


def test_extraction_time_is_linear_in_white_space_after_fences() -> None:
    began = time.process_time()
    for text in ("```" + " " * 40_000, "``` " * 12_000, "```\n" * 12_000, "`" * 49_000, "~`" * 24_000):
        assert extract_programs(text, "f", params="x") is not None
    assert time.process_time() - began < 5  # it was a minute when each blank was tried with each other


@pytest.mark.parametrize(
    "code",
    [
        "def plus(a):\n    return a + 1\n",
        "import math\n\n\nclass Solution:\n    def plus(self, a):\n        return a + 1\n\nprint(Solution().plus(2))",
        "@cache\ndef plus(\n    a,\n):\n    # more\n# by one\n    return a + 1",
    ],
)
def test_a_program_that_defines_another_function_is_not_taken_as_a_body(code: str) -> None:
    for options in ({}, {"params": "a"}):
        for reply in (f"Here:\n```python\n{code}\n```", code):
            assert extract_programs(reply, "f", **options)[0].strip() == code.strip()


@pytest.mark.parametrize(
    "body",
    [
        "def step(b):\n    return b + 1\nreturn step(a)",
        "def step(b): return b + 1\nfor b in [a]:\n    return step(b)",
        "import math\nreturn math.floor(a + 1)",
        "class One:\n    value = 1\n\nif a:\n    return a + One.value",
    ],
)
def test_a_body_with_definitions_of_its_own_is_a_body(body: str) -> None:
    for reply in (body, f"```python\n{body}\n```"):
        assert result_of(reply, params="a") == 3
