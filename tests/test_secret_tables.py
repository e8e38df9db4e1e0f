"""The tables of secrets, and which files set variables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.secret_tables import (
    HOME_SECRETS,
    SECRET_ENDINGS,
    SECRET_FILES,
    SECRET_PAIRS,
    TOKENS,
    is_env_file,
)

ENV_FILES = [
    ".env", ".env.local", ".env.production", ".env.production.local", ".env-staging", ".env_test", ".env~", ".env.bak",
    "#.env#", ".env ", "prod.env", "my.prod.env", "prod.env.bak", ".dev.vars",
    ".env.example.local", "x.env.local",
    ".dev.vars.production", ".flaskenv", "env.production",
]  # fmt: skip
OTHER_FILES = [
    ".env.example", ".env.sample", ".env.template", ".env.dist", ".env.default", ".env.defaults", ".env.schema",
    ".env.production.example", ".env.example.bak", ".env.example~", "example.env", "sample.env", ".env-example",
    ".dev.vars.example", ".envrc", "env", "env.d.ts", "environment", "env.py", ".environment", "dotenv.md", "",
]  # fmt: skip
WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)


@pytest.mark.parametrize("name", ENV_FILES)
def test_an_env_file_is_known_by_its_name(name: str) -> None:
    """Files that set variables are found in all the usual spellings."""
    assert is_env_file(name)


@pytest.mark.parametrize("name", OTHER_FILES)
def test_a_sample_is_no_env_file(name: str) -> None:
    """An example file, or a file of another kind, is no secret file."""
    assert not is_env_file(name)


@given(st.sampled_from([*ENV_FILES, *OTHER_FILES]), st.randoms())
def test_case_does_not_matter(name: str, random: object) -> None:
    """On some file systems `.ENV` is `.env`, so case never matters."""
    shuffled = "".join(each.upper() if random.random() < 0.5 else each for each in name)  # type: ignore[attr-defined]  # hypothesis types it as a plain Random
    assert is_env_file(shuffled) == is_env_file(name)


@given(WORDS, st.sampled_from([".env.{}", "{}.env", ".env-{}", ".dev.vars.{}"]))
def test_a_stage_can_have_any_name(word: str, form: str) -> None:
    """Whatever a stage is called, its file counts, unless the word says that it is a sample."""
    is_sample = re.fullmatch("example|sample|template|dist|defaults?|schema", word) is not None
    assert is_env_file(form.format(word)) != is_sample


@given(st.text(max_size=300))
def test_any_name_has_an_answer(name: str) -> None:
    """A file can have any name."""
    assert is_env_file(name) in (True, False)


def test_names_in_the_tables_are_in_the_case_that_they_are_compared_in() -> None:
    """A capital letter in a table of lower-case names would never match."""
    names = [*SECRET_FILES, *SECRET_ENDINGS, *(part for pair in SECRET_PAIRS for part in pair)]
    assert [name for name in names if name != name.lower()] == []
    assert [name for name in HOME_SECRETS if name.startswith("/")] == []


def test_a_hint_of_a_token_is_in_lower_case_and_part_of_what_it_looks_like() -> None:
    """Hints are looked for in the lower case of a text, so a capital letter would never match."""
    for token in TOKENS:
        assert token.hints
        assert all(hint == hint.lower() for hint in token.hints), token.kind
