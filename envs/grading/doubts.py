"""Words beside a number or an answer that change it, hedge it, or say that it is not the writer's answer.

Three kinds, from the narrowest to the widest reach:
- directly before a number, words that make another number of it (`minus 18`, `twice 18`, `the square of 18`, `at most
  18`, `roughly 18`);
- within a few words, words that deny it or offer another (`not 18`, `hardly 18`, `17 or 18`, `18 or so`);
- in the same clause, words that say that a statement is false, only assumed, or somebody else's (`It is false that the
  answer is 18`, `Suppose x = 18`, `The student's answer is 18`).
"""

from __future__ import annotations

import re

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands k "
    "million millions billion billions trillion trillions bn mn dozen dozens half halves third thirds quarter fourths "
    "fifths sixths eighths tenths hundredths thousandths twice double triple"
)
_OPERATOR_WORDS = "plus minus times over squared cubed point negative root factorial modulo mod divided multiplied"
_DOUBT_WORDS = (
    "or nor not no never either neither maybe perhaps possibly unless wrong incorrect false instead except versus vs "
    "isn't aren't wasn't won't can't cannot couldn't don't doesn't didn't shouldn't wouldn't hasn't haven't ain't "
    "without unequal hardly scarcely barely unlikely excluding untrue"
)
_BEFORE = frozenset(f"{_DOUBT_WORDS} than through avoid avoiding reject rejecting refuse refusing".split())
_DENIAL_WORDS = (  # of a choice, such as a move
    "or nor not no never neither unless wrong incorrect false except isn't aren't wasn't won't can't cannot couldn't "
    "don't doesn't didn't shouldn't wouldn't ain't hardly excluding avoid avoiding reject rejecting refuse refusing "
    "mistake mistaken"
)
_DENIALS = frozenset(_DENIAL_WORDS.split())
_ALL_BUT = re.compile(r"\b(?:anything|everything|all)\s+but\b")
_AFTER = frozenset(f"{_NUMBER_WORDS} {_OPERATOR_WORDS} {_DOUBT_WORDS} approximately roughly approx ish".split())
_IN_FORMULAS = _BEFORE | frozenset(_OPERATOR_WORDS.split()) | (_AFTER - {"k", "bn", "mn"})

_CHANGERS = (  # each with "of" after it: "the square of 18", "half of 18"
    "opposite|square|cube|root|reciprocal|inverse|negation|negative|double|triple|half|third|quarter|multiples?|factors?|"
    "divisors?|power|percent|percentage|fraction|part|portion|complement|factorial|logarithm|log|sine|cosine|successor|"
    "predecessor|instead|short|north|south|upwards|excess|neighbou?rhood|vicinity|order|tens|dozens|ahead|shy"
)
_DIRECTLY_BEFORE = re.compile(
    r"(?:\b(?:twice|thrice|half|double|triple|plus|minus|times|over|under|above|below|beyond|past|near|nearly|almost|about|"
    r"around|approximately|approx\.?|roughly|circa|ca\.|squared|cubed|point|negative|root|factorial|modulo|mod|within|"
    r"exceeds?|exceeding|some|(?:divided|multiplied|raised|increased|decreased|reduced)\s+(?:by|to)|close\s+to|up\s+to|"
    r"next\s+to|(?:far|away|apart|different|differs|distinct)\s+from|(?:anything|everything|all|nothing|number)\s+(?:but|like)|"
    rf"at\s+(?:least|most)|(?:{_CHANGERS})\s+of)|\\approx)(?:[^\w.!?]+(?:of|the|just|exactly|a|an))*[^\w.!?]*$",
    re.IGNORECASE,
)
_CLAIM = re.compile(  # in the clause before an answer
    r"\b(?:false|untrue|incorrect(?:ly)?|wrong(?:ly)?|mistaken(?:ly)?|impossible|absurd|contradict\w*|suppos(?:e|ing|edly)|"
    r"assum(?:e|es|ing)|pretend\w*|imagine|hypothe\w+|if|unless|let(?!['’]s)|"
    r"let['’]s(?!\s+(?:go\s+with|choose|pick|answer|take|use)\b)|den(?:y|ies|ied)|doubt\w*|refute[sd]?|disprove[sd]?|"
    r"allegedly|says|claims|thinks|believes|insists|argues|said|claimed|thought|believed|guessed|"
    r"(?:user|prompt)\s+(?:wrote|writes|contains?|contained|quotes?|quoted)|"
    r"(?:not|isn['’]t|n['’]t)\s+(?:true|the\s+case|correct|right|that)|cannot\s+be\s+that|"
    r"(?:some|people|many|others|one|you|students?|they|nobody)\s+(?:\w+\s+)?(?:say|think|claim|believe|guess|answer)|"
    r"(?:first|initial|previous|earlier|naive|tempting|other|another|old|rough|approximate|estimated|possible(?!\s+(?:values?|results?))|rejected|"
    r"bad|opposite|his|her|their|your|(?!problem|question|exercise|puzzle|task)[a-z]+['’]s)\s+(?:\w+\s+)?"
    r"(?:answers?|results?|solutions?|values?|guess|guesses|claims?|response|reply))\b",
    re.IGNORECASE,
)
_NO_CLAIM = re.compile(  # words of a claim that claim nothing
    r"\bif\s+and\s+only\s+if\b|\bthe\s+number\s+of\s+(?:[\w'’]+\s+){1,8}?(?=(?:is|are|equals)\b|=)"
    r"|\bthe\s+other\s+(?=(?:solution|root|zero|value|number)\b)",
    re.IGNORECASE,
)
_DENIED = re.compile(  # directly before a mark such as a box
    r"(?:\b(?:not|never|hardly|scarcely|barely|neither|nor|ain['’]t|cannot|cannot\s+be)|n['’]t|~~|"
    r"\\(?:[xb]?cancel|sout)\s*\{)"
    r"(?:\s+(?:equal|to|exactly|simply|really|quite|just|always|the|be|been|answer|is|a|an))*[\s$(\\\[*_:]*$",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(  # in what follows an answer
    r"\b(?:that|this|it|which|but|no)\b(?:,?\s+|['’])(?:\w+\s+){0,3}?(?:wrong|incorrect|false|mistaken|a\s+mistake|untrue|"
    r"absurd|impossible|(?:not\s+)(?:right|correct|true|possible|it))\b"
    r"|n['’]t\s+(?:right|correct|true|the\s+(?:\w+\s+)?answer)\b|\bcontradict\w*|\bkidding\b|\bscratch\s+that\b",
    re.IGNORECASE,
)
_WRONG = (
    r"(?:wrong|incorrect|false|mistaken|a\s+mistake|untrue|absurd|impossible|not\s+(?:right|correct|true|possible))\b"
)
_NOT_IT = rf"(?:{_WRONG}|(?:not|isn['’]t)\s+(?:the\s+(?:\w+\s+)?answer|right|correct|true)\b)"
_CALLED_WRONG = re.compile(  # directly after an answer, or of "the answer" behind it
    rf"^[\s`$*_\"”')}}\]]*(?:is|was|would\s+be|seems|looks)\s+(?:(?!not\b)\w+\s+)?{_NOT_IT}"
    rf"|^[\s`$*_]*\(\s*{_WRONG}\s*\)"
    r"|^[\s`$*_\"”')}\]]*(?:isn|wasn)['’]t\s+(?:right|correct|true)\b"
    rf"|\b(?:the|this|that|my)\s+(?:(?!other)\w+\s+){{0,2}}(?:answer|box|result)\s+(?:is|was)\s+(?:\w+\s+)?{_WRONG}",
    re.IGNORECASE,
)
_MARK_IS_DENIED = re.compile(  # directly before a mark, besides what `_DENIED` finds
    r"\b(?:or|nor|than|except|excluding|avoid|avoiding|reject|rejecting|(?:anything|everything|all|nothing|number)\s+"
    rf"(?:but|like|except)|(?:twice|thrice|double|triple|half)|(?:{_CHANGERS})\s+of)"
    r"(?:\s+(?:the|just|exactly|a|an))?[\s$(\\\[*_`]*$",
    re.IGNORECASE,
)
_NEXT_IS_WRONG = re.compile(
    rf"(?:(?<!\bof\s)\bthe\s+(?:following|next)(?:\s+\w+)?|\bwhat\s+(?:follows|comes))\s+(?:is\s+)?(?:\w+\s+)?{_NOT_IT}$"
    r"|\bnot\s+the\s+following$",
    re.IGNORECASE,
)
_THIS_IS_WRONG = re.compile(
    rf"(?:(?<!\bif\s)\b(?P<this>this|it)\s+(?:is\s+(?:\w+\s+)?)?|^\W*(?:(?:the|a|an|my)\s+)?){_NOT_IT}"
    r"(?P<noun>\s+(?:answer|result|solution|value|guess)(?:\s+is)?)?$",
    re.IGNORECASE,
)
_RETRACTED = re.compile(  # for another number, or for none: not "wait, no units are needed"
    r"\b(?<!if\s)(?:that|it|this|answer)\s+is\s+[-−]?[0-9.,]+\s+instead\b"
    r"|\bwait\b\W{0,3}(?:no|actually)\b(?:[\s.!…]*(?:\n|$)|[^\n]*[0-9])|\b(?:make\s+that|correction)\b[^\n]*[0-9]",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:because|since|where|as\s+(?:it|there|they|this|that|we|i))\b", re.IGNORECASE)
_CLAUSE_END = re.compile(
    r"[.!?;:](?=\s|$)|,(?!\s*that\b)|\n|"
    r"\b(?:so|then|therefore|thus|hence|(?<!all\s)(?<!anything\s)(?<!everything\s)but|which)\b",
    re.IGNORECASE,
)
_TIMES = re.compile(r"\\times(?![A-Za-z])")  # an operator; the word `times` is something else
_REACH = 160  # characters of a clause that are read
GUESSES = r"(?:maybe|perhaps|possibly|(?:could|might|may)(?:\s+(?:also|well))?\s+be)"  # before an answer, or behind it
CORRECTIONS = r"(?:hmm+|hm|wait|actually|sorry|oops)"  # between two answers


def keeps_value(before: str, after: str) -> bool:
    """Whether the words before and after a number leave its value as it is.

    They do not in "not 18", "minus 18", "about 18", "the square of 18", "18 thousand" and "18 or so".
    """
    if before and (_DIRECTLY_BEFORE.search(before) or not _BEFORE.isdisjoint(_words(before))):
        return False
    return not after or _AFTER.isdisjoint(_words(after))


def has_plain_words(formula: str) -> bool:
    """Whether no word in a formula changes its value or retracts it, as "thousand" and "not" do.

    `k` and `mn`, which elsewhere mean thousand and million, are variables here.
    """
    return _IN_FORMULAS.isdisjoint(_words(formula))


def is_disclaimed(before: str) -> bool:
    """Whether the clause at the end of `before` says that what follows is false, assumed, or another's answer."""
    clause = last_clause(before)
    return bool(clause) and _CLAIM.search(clause) is not None and _CLAIM.search(_NO_CLAIM.sub(" ", clause)) is not None


def is_denied(before: str) -> bool:
    """Whether the answer after `before`, such as a box, is denied or disclaimed: "It is not", "Suppose that"."""
    before = before[-_REACH:]
    return _DENIED.search(before) is not None or is_disclaimed(before)


def denies_next(before: str) -> bool:
    """Whether the text before an answer denies it: "Anything but", or as `calls_next_wrong` says."""
    return _MARK_IS_DENIED.search(before[-40:]) is not None or calls_next_wrong(before)


def calls_next_wrong(before: str) -> bool:
    """Whether the text before an answer calls it wrong: "This is wrong:", "The following is false" and the like.

    "This is wrong." without a colon may be about what stands before it, so it counts only if nothing does.
    """
    before = before[-_REACH:]
    lead = before.rstrip(" \n\t\r*_$`\\([")
    sentence = last_clause(lead.rstrip(":.!\u2026 *_")).strip()
    if _NEXT_IS_WRONG.search(sentence):
        return True
    match = _THIS_IS_WRONG.search(sentence)
    if match is None:
        return False
    is_all = len(before) < _REACH and not before[: before.rfind(sentence)].strip(" \n\t\r*_#>")
    return (is_all and "\n" in before[len(lead) :]) or (lead.endswith(":") and bool(match["this"] or match["noun"]))


def is_disclaimed_at(text: str, position: int) -> bool:
    """Whether the words before the phrase "answer is" at `position` of `text` say that it is false or another's."""
    is_false = is_disclaimed(text[max(0, position - _REACH) : position + len("answer")])
    return is_false or denies_next_line(text, position)


def denies_next_line(text: str, position: int) -> bool:
    """Whether what stands before the line on which `position` of `text` is denies that line."""
    end = text.rfind("\n", max(0, position - _REACH), position)
    return end > 0 and denies_next(text[max(0, end + 1 - _REACH) : end + 1])


def leads_into_doubt(line: str) -> bool:
    """Whether a line that goes on in the next one denies what stands there, or offers it beside another answer."""
    clause = last_clause(line.rstrip(" :*_"))
    last_words = " ".join(clause.split()[-2:])
    return is_denied(clause) or not keeps_value(last_words, "")


def denies(clause: str) -> bool:
    """Whether words beside the name of a choice deny it: those of "I do not go north" and "north is not possible"."""
    is_sign = any(sign in clause for sign in ("!=", "≠", "¬"))
    return is_sign or not _DENIALS.isdisjoint(_words(clause)) or _ALL_BUT.search(clause.lower()) is not None


def denies_around(line: str, name: re.Match[str]) -> bool:
    """Whether the words of its clause deny the name that `name` matches on `line`."""
    return denies(clauses_around(line[: name.start()], line[name.end() :]))


def denies_mark(before: str, after: str) -> bool:
    """Whether the words around a marked answer deny it: "not <answer>5</answer>", "<answer>5</answer> is wrong".

    What they deny besides it counts only before the mark: "<answer>5</answer> and not 7" is an answer.
    """
    return denies(last_clause(before)) or is_taken_back(after)


def is_taken_back(after: str) -> bool:
    """Whether the text after an answer says that it is wrong."""
    after = after[:_REACH]
    return bool(after) and any(pattern.search(after) for pattern in (_TAKEN_BACK, _CALLED_WRONG, _RETRACTED))


def is_called_wrong(after: str) -> bool:
    """Whether the text after a mark such as a box says of it, or of "the answer", that it is wrong."""
    return _CALLED_WRONG.search(after[:_REACH]) is not None


def last_clause(text: str) -> str:
    """Return the end of `text` after the last punctuation mark or word that begins a clause."""
    text = text[-_REACH:]
    start = 0
    for match in _CLAUSE_END.finditer(text):
        if match.end() < len(text):
            start = match.end()
    return text[start:]


def clauses_around(before: str, after: str) -> str:
    """Return the words that stand in one clause with a name, before it and after it, with ` ... ` in its place.

    The reason that follows the name is left out: of "go right because left is not free", `go ... `.
    """
    after = after[:_REACH]
    ends = [end.start() for pattern in (_CLAUSE_END, _REASON) if (end := pattern.search(after))]
    return f"{last_clause(before)} ... {after[: min(ends)] if ends else after}"


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)?", _TIMES.sub(" ", text).lower().replace("’", "'"))
