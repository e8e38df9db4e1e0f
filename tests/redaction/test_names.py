from __future__ import annotations

import pytest

from hookline.redaction import redact


@pytest.mark.parametrize(
    "value",
    ['a"hunter2"', "''hunter2", "$'hunter2'", "a\\ hunter2", "a,hunter2", "hunter2", '"hunter2"'],
)
def test_the_value_of_a_shells_variable_is_a_word_of_the_shell(value: str) -> None:
    """However it is put together; a reference to another variable is none."""
    assert "hunter2" not in redact(f"DB_PASSWORD={value} ./run")
    assert redact("DB_PASSWORD=$OTHER ./run") == "DB_PASSWORD=$OTHER ./run"
