"""What a docstring says, read with and without the parser."""

from __future__ import annotations

import inspect

import docstring_parser
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.tools.schema import read_doc

PIECES = [
    *(
        "Give it back.",
        "Args",
        "Args:",
        "Parameters",
        "----------",
        "text",
        "text (str)",
        ": ",
        ":",
        "@",
    ),
    *(
        ":param text: what",
        "\n",
        "\n\n",
        "    ",
        "\t",
        "- one",
        ".. note::",
        "Returns",
        ">>> f()",
        "a: b",
        "Raises: E",
    ),
]


def parsed(doc: str) -> tuple[str, dict[str, str]]:
    """What the parser makes of it; where it fails, all of it is a description."""
    try:
        read = docstring_parser.parse(doc)
    except Exception:
        return doc.strip(), {}
    texts = {
        name.strip(): param.description
        for param in read.params
        for name in (param.arg_name or "").split(",")
        if param.description
    }
    return (read.description or "").strip(), texts


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
)
@example("Give the text back.")
@example(" a\tb ")
@example(":param text: what to give back")
@example(": :")
@example("0\n\r\n0")
@example("0\n\n\n0")
@example("One.\n\nTwo\nthree.\n\n\nFour.")
def test_a_docstring_reads_the_same_without_the_parser(doc: str) -> None:
    """The parser is only left out where it would have found nothing but a description."""
    doc = inspect.cleandoc(doc)
    assert read_doc(doc) == parsed(doc)
