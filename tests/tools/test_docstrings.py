"""What a docstring says, read with and without the parser."""

from __future__ import annotations

import docstring_parser
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.tools.schema import _is_one_sentence, _read_doc


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("Give the text back.")
@example(" a\tb ")
@example(":param text: what to give back")
def test_one_sentence_reads_the_same_without_the_parser(doc: str) -> None:
    """The parser is only left out where it would have found nothing."""
    parsed = docstring_parser.parse(doc)
    if _is_one_sentence(doc):
        assert _read_doc(doc) == ((parsed.description or "").strip(), {})
        assert not parsed.params
