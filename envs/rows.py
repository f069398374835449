"""The table of this package's environments. It holds strings only, so that listing them imports none of them."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """An environment in a listing.

    Attributes:
        id: Such as "math/Arithmetic-v0".
        entry_point: "module:Class".
        line: One line that describes it.
        extra: The extra of this distribution that it uses, or "".
        data: Its folder below the data root, if its tasks come from files, or "".
    """

    id: str
    entry_point: str
    line: str
    extra: str = ""
    data: str = ""


ROWS = (
    Row("math/Arithmetic-v0", "envs.math.arithmetic:Arithmetic", "sums, differences and products in four levels"),
    Row(
        "math/GSM8K-v0",
        "envs.math.gsm8k:GSM8K",
        "grade-school word problems, exact numeric answer",
        data="gsm8k",
    ),
    Row("math/Algebra-v0", "envs.math.algebra:Algebra", "equations in one unknown, from one step to quadratics"),
    Row(
        "math/WordProblems-v0",
        "envs.math.word_problems:WordProblems",
        "short stories that ask for a number, with units",
    ),
    Row("math/Countdown-v0", "envs.math.countdown:Countdown", "reach a target with given numbers"),
    Row("math/LinearSystem-v0", "envs.math.linear_system:LinearSystem", "two or three linear equations"),
    Row("math/Fractions-v0", "envs.math.fractions:Fractions", "sums, products and quotients of fractions"),
    Row("math/Sets-v0", "envs.math.sets:Sets", "unions, intersections and differences"),
    Row("math/FirstError-v0", "envs.math.first_error:FirstError", "name the first wrong step of a calculation"),
    Row("math/Revise-v0", "envs.math.revise:Revise", "arithmetic in several tries, with hints"),
    Row("math/Python-v0", "envs.math.python:Python", "problems with a Python interpreter as a tool"),
    Row("math/MATH500-v0", "envs.math.math500:MATH500", "competition problems, answers in LaTeX", "math", "math500"),
    Row("math/AIME-v0", "envs.math.aime:AIME", "competition problems, whole numbers up to 999", data="aime"),
    Row("math/RG-v0", "envs.math.rg:RG", "any of 88 tasks of the package reasoning-gym", extra="math"),
    Row("games/GuessNumber-v0", "envs.games.guess_number:GuessNumber", "find a hidden number by higher and lower"),
    Row("games/FrozenLake-v0", "envs.games.frozen_lake:FrozenLake", "cross a frozen lake without falling in"),
    Row("games/Maze-v0", "envs.games.maze:Maze", "find the way through a maze, one cell in sight"),
    Row("games/TwentyQuestions-v0", "envs.games.twenty_questions:TwentyQuestions", "ask about a thing, then name it"),
    Row("games/Rooms-v0", "envs.games.rooms:Rooms", "fetch and carry in a small house, in text commands"),
    Row("games/Taxi-v0", "envs.games.taxi:Taxi", "drive a passenger home through a town with walls"),
    Row("games/CliffWalking-v0", "envs.games.cliff_walking:CliffWalking", "walk along a cliff without falling down"),
    Row("games/Shapes-v0", "envs.games.shapes:Shapes", "questions about pictures of coloured shapes"),
    Row("games/Blackjack-v0", "envs.games.blackjack:Blackjack", "win several hands of blackjack in a row"),
    Row(
        "games/TextArena-v0",
        "envs.games.textarena:TextArena",
        "single-player games of the package TextArena",
        extra="textarena",
    ),
    Row("games/Recall-v0", "envs.games.recall:Recall", "find the value beside a key in a table of random signs"),
    Row("games/Wordle-v0", "envs.games.wordle:Wordle", "find a word by which letters of a guess it has"),
    Row("games/Mastermind-v0", "envs.games.mastermind:Mastermind", "find a code by how many digits of a guess it has"),
    Row("games/Minesweeper-v0", "envs.games.minesweeper:Minesweeper", "open every cell without a mine, by logic"),
    Row("games/Sokoban-v0", "envs.games.sokoban:Sokoban", "push boxes onto goals"),
    Row("games/Doors-v0", "envs.games.doors.doors:Doors", "doors, walks and tests with dials for what credit can do"),
    Row("games/2048-v0", "envs.games.twenty48:Twenty48", "slide and merge tiles up to a target"),
    Row("code/Functions-v0", "envs.code.functions:Functions", "write short functions, graded on hidden inputs"),
    Row("code/HumanEval-v0", "envs.code.humaneval:HumanEval", "complete functions that pass tests", data="humaneval"),
    Row("code/MBPP-v0", "envs.code.mbpp:MBPP", "write functions from a sentence, graded by assertions", data="mbpp"),
    Row("code/Shell-v0", "envs.code.shell:Shell", "change a small file tree as a request says, in a real shell"),
    Row("code/Repo-v0", "envs.code.repo:Repo", "fix the bug that an issue reports in a small Python repository"),
    Row("code/Repair-v0", "envs.code.repair:Repair", "repair a wrong function, given one failing input at a time"),
    Row("multi/TicTacToe-v0", "envs.multi.tic_tac_toe:TicTacToe", "tic-tac-toe for two"),
    Row("multi/ConnectFour-v0", "envs.multi.connect_four:ConnectFour", "connect four for two, boards of any size"),
    Row("multi/Kuhn-v0", "envs.multi.kuhn:Kuhn", "Kuhn poker for two: three cards, one bet"),
    Row("multi/Leduc-v0", "envs.multi.leduc:Leduc", "Leduc hold'em, a poker game for two: six cards, two rounds"),
    Row(
        "multi/IteratedDilemma-v0",
        "envs.multi.iterated_dilemma:IteratedDilemma",
        "the prisoner's dilemma, several rounds, moves at the same time",
    ),
    Row("multi/PlanPath-v0", "envs.multi.plan_path:PlanPath", "a planner sees the map, an executor walks"),
    Row(
        "multi/Sokoban-v0", "envs.multi.teams.sokoban:SokobanTeam", "a planner sees the boxes, an executor pushes them"
    ),
    Row(
        "multi/Relay-v0",
        "envs.multi.teams.relay:Relay",
        "two carry on a calculation in turn, each with steps of its own",
    ),
    Row(
        "multi/SolverVerifier-v0",
        "envs.multi.teams.solver_verifier:SolverVerifier",
        "one solves problems of another environment, the other checks",
    ),
    Row(
        "multi/CoderTester-v0",
        "envs.multi.teams.coder_tester:CoderTester",
        "one writes a function, the other its tests",
    ),
    Row("multi/Negotiation-v0", "envs.multi.talk.negotiation:Negotiation", "divide things whose values are private"),
    Row(
        "multi/OddWord-v0", "envs.multi.talk.odd_word:OddWord", "give clues and find out which of four has another word"
    ),
    Row("tools/Search-v0", "envs.tools.search:Search", "search and read a small wiki to answer over several pages"),
    Row(
        "tools/Corpus-v0",
        "envs.tools.corpus.corpus:CorpusQA",
        "answer questions from a corpus of your own, citing its documents",
        extra="search",
        data="corpus",
    ),
    Row(
        "tools/Workflow-v0",
        "envs.tools.workflow.workflow:Workflow",
        "settle requests by the many endpoints of an API, or of your own OpenAPI file",
    ),
    Row("tools/Plans-v0", "envs.tools.plans.plans:Plans", "write a whole plan of tool calls, as JSON or as code"),
    Row("tools/Clarify-v0", "envs.tools.clarify.clarify:Clarify", "ask a user for missing details, then make one call"),
    Row("tools/Support-v0", "envs.tools.support.support:Support", "settle a customer's wish at a shop's support desk"),
    Row(
        "tools/Travel-v0", "envs.tools.travel.travel:Travel", "settle an employee's wish at a travel and calendar desk"
    ),
    Row("tools/Tau2-v0", "envs.tools.tau2.tau2:Tau2", "serve a customer of a tau2 domain by its policy", data="tau2"),
    Row("tools/BFCL-v0", "envs.tools.bfcl.bfcl:BFCL", "call the right functions, judged as by BFCL", data="bfcl"),
    Row(
        "tools/BFCLMultiTurn-v0",
        "envs.tools.bfcl.multi_turn:BFCLMultiTurn",
        "settle requests in turns on eight small systems, judged as by BFCL",
        data="bfcl",
    ),
    Row("web/Widgets-v0", "envs.web.widgets:Widgets", "use one control of a web page: a form, a calendar, a table"),
    Row("web/Shop-v0", "envs.web.shop:Shop", "order, compare and return in a web shop"),
    Row("web/Purchase-v0", "envs.web.purchase.purchase:Purchase", "find and buy what fits a request, scored in parts"),
    Row("web/Mail-v0", "envs.web.mail:Mail", "reply, forward, label and archive in a mailbox"),
    Row("web/CRM-v0", "envs.web.crm:CRM", "edit, annotate and hand over customers in a register"),
    Row("web/Calendar-v0", "envs.web.calendar:Calendar", "schedule, move and cancel meetings in a shared calendar"),
    Row("web/Wiki-v0", "envs.web.wiki:Wiki", "follow links in a wiki, or correct an article"),
    Row("web/Board-v0", "envs.web.board:Board", "triage, link, move and count tickets on a board"),
    Row("web/Access-v0", "envs.web.access:Access", "give and take roles of people in projects"),
    Row("web/MiniWoB-v0", "envs.web.miniwob.miniwob:MiniWoB", "any of the 130 pages of MiniWoB++", extra="web"),
)
