"""Worked episodes: a question, the call that helps, its result and the answer.

A small model does what it has just seen done. The episodes are about tools that many agents have; `casting` puts an
agent's own tools in their places.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Episode(NamedTuple):
    """One question, from asking to answering. Without a `tool` it is answered at once."""

    ask: str
    tool: str
    args: dict[str, Any]
    result: str
    answer: str


class Scene(NamedTuple):
    """An episode whose tool is still to be cast: `values` are its arguments, in order."""

    ask: str
    values: tuple[str | int, ...]
    result: str
    answer: str


class Part(NamedTuple):
    """A kind of tool, known by the words in its name, and the scenes it plays in."""

    verbs: frozenset[str]
    nouns: frozenset[str]
    """One of these must be in the name as well, unless the verb stands alone. Empty: the verb is enough."""
    scenes: tuple[Scene, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _listing(ask: str, files: str) -> Scene:
    return Scene(ask, (), files, f"The files are: {files}.")


def _reading(ask: str, path: str, text: str) -> Scene:
    return Scene(ask, (path,), text, f"{path} says: {text}")


def _adding(ask: str, one: int, other: int) -> Scene:
    return Scene(ask, (one, other), str(one + other), f"The sum is {one + other}.")


def _multiplying(ask: str, one: int, other: int) -> Scene:
    return Scene(ask, (one, other), str(one * other), f"The product is {one * other}.")


def _writing(ask: str, path: str, text: str) -> Scene:
    return Scene(ask, (path, text), "ok", f"{path} is written.")


def _running(ask: str, command: str, output: str) -> Scene:
    return Scene(ask, (command,), output, f"The output is: {output}")


def _searching(ask: str, query: str, found: str) -> Scene:
    return Scene(ask, (query,), found, f"I found: {found}")


PARTS = (
    Part(
        _words("list ls dir show"),
        _words("file files folder directory dir entries documents"),
        (
            _listing("What files are there?", "budget.csv, letter.txt"),
            _listing("List the folder.", "main.py, test.py, LICENSE"),
            _listing("Which documents are in this directory?", "plan.doc, cat.png"),
            _listing("Show me the names of all files here.", "a.log, b.log"),
            _listing("Do I have any pictures?", "tree.jpg, house.png"),
            _listing("What is stored in this place?", "old.zip"),
            _listing("Is there a file named todo.txt here?", "todo.txt, done.txt"),
        ),
    ),
    Part(
        _words("read cat open load view show get"),
        _words("file text document content contents"),
        (
            _reading("What is in letter.txt?", "letter.txt", "Dear Anna, see you on Monday."),
            _reading("Show the text of colors.txt.", "colors.txt", "red, green"),
            _reading("Which port is in app.ini?", "app.ini", "port=9000"),
            _reading("Who wrote report.md?", "report.md", "Report by Lena Fox"),
            _reading("Open story.txt.", "story.txt", "The fox ran home."),
            _reading("Please read names.csv and tell me what it says.", "names.csv", "Ada, Ben"),
            _reading(
                "How many eggs are needed, according to cake.txt?", "cake.txt", "Take 3 eggs."
            ),
            _reading("Print main.py.", "main.py", "run()"),
        ),
    ),
    Part(
        _words("add sum plus"),
        _words("numbers integers two up"),
        (
            _adding("What is 3 plus 4?", 3, 4),
            _adding("Add 120 and 45.", 120, 45),
            _adding("Tom has 5 apples and gets 8 more. How many apples has he?", 5, 8),
            _adding("Calculate 60 + 7.", 60, 7),
            _adding("How much do 9 euros and 15 euros make together?", 9, 15),
            _adding("What is the sum of 200 and 14?", 200, 14),
            _adding("How many are 31 and 10 in total?", 31, 10),
        ),
    ),
    Part(
        _words("multiply times product mul"),
        _words("numbers integers two"),
        (
            _multiplying("What is 3 times 4?", 3, 4),
            _multiplying("Multiply 12 by 5.", 12, 5),
            _multiplying("6 boxes hold 7 pens each. How many pens are there?", 6, 7),
        ),
    ),
    Part(
        _words("write save create"),
        _words("file text document"),
        (
            _writing("Write hello into hi.txt.", "hi.txt", "hello"),
            _writing("Save the line port=80 as web.ini.", "web.ini", "port=80"),
            _writing(
                "Create a file called tea.txt with the text drink tea.", "tea.txt", "drink tea"
            ),
        ),
    ),
    Part(
        _words("bash shell exec execute run"),
        _words("command bash shell script"),
        (
            _running("Run date.", "date", "Mon May 4"),
            _running("Which user am I?", "whoami", "anna"),
            _running("Show the disk space with df.", "df", "/dev/sda1 40%"),
        ),
    ),
    Part(
        _words("glob"),
        frozenset(),
        (
            _searching("Find all Python files.", "**/*.py", "main.py, test.py"),
            _searching("Look for pictures in every folder.", "**/*.png", "tree.png, old/cat.png"),
        ),
    ),
    Part(
        _words("search find grep look lookup query"),
        frozenset(),
        (
            _searching("Search for blue whales.", "blue whales", "The blue whale is an animal."),
            _searching("Find out about Mount Etna.", "Mount Etna", "Mount Etna is a volcano."),
            _searching("Look up tulips.", "tulips", "Tulips bloom in spring."),
        ),
    ),
    Part(
        _words("weather forecast temperature"),
        frozenset(),
        (
            Scene("What is the weather in Oslo?", ("Oslo",), "snow", "The weather is: snow"),
            Scene(
                "How warm is it in Cairo?", ("Cairo",), "31 degrees", "The weather is: 31 degrees"
            ),
        ),
    ),
    Part(
        _words("time clock now date today"),
        frozenset(),
        (
            Scene("What time is it?", (), "09:41", "It is 09:41."),
            Scene("What is the date today?", (), "4 May", "It is 4 May."),
        ),
    ),
)

DIRECT = tuple(
    Episode(ask, "", {}, "", answer)
    for ask, answer in (
        ("What is the capital of France?", "The capital of France is Paris."),
        ("Hello!", "Hello! How can I help you?"),
        ("Which animal barks?", "A dog barks."),
        ("What is the opposite of big?", "The opposite of big is small."),
        ("Thanks!", "You are welcome!"),
        ("What colour is the sky?", "The sky is blue."),
        ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet."),
        ("How many legs has a spider?", "A spider has eight legs."),
        ("Name a fruit.", "Apple is a fruit."),
        ("Who are you?", "I am a small language model."),
        ("Tell me a joke.", "Why did the egg hide? It was a little chicken."),
        ("How are you?", "I am fine, thank you."),
    )
)
"""Questions that need no tool."""
