from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.errors import CassetteError
from hookline.testing import Cassette
from hookline.testing.cassette_file import Answer, Asked, Event, Exchange, Lost, read, write

EXCHANGES = (
    Exchange(
        Asked("POST", "/v1/ask", {"messages": [{"role": "user", "content": "Grüß dich! " * 9}]}),
        Answer(
            200,
            {"content-type": "text/event-stream"},
            events=(Event("start", {"id": 1}), Event(data=None), "data: [DONE]\n\n"),
        ),
    ),
    Exchange(Asked("POST", "/v1/ask", {}), Answer(200, {}, json=None)),
    Exchange(Asked("POST", "/v1/ask"), Answer(500, {"retry-after": "1"}, text="Oh.\n")),
    Exchange(Asked("GET", "/"), Answer(200, {}, base64="/w==", lost=Lost("ReadError", "cut"))),
    Exchange(Asked("GET", "/"), Answer(left=True)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a directory that is not there yet."""
    return tmp_path / "a" / "b" / "cassette.json"


def test_what_is_written_is_read(path: Path) -> None:
    """In every form that a body has, and the file is the only one there."""
    write(path, EXCHANGES)
    assert read(path) == EXCHANGES
    assert list(path.parent.iterdir()) == [path]


def test_it_is_written_to_be_read_by_people(path: Path) -> None:
    """What fits a line is on one line, and each event of a stream is on its own."""
    write(path, EXCHANGES[:1])
    assert (
        path.read_text(encoding="utf-8")
        == """\
{
  "hookline_cassette": 1,
  "exchanges": [
    {
      "request": {
        "method": "POST",
        "path": "/v1/ask",
        "body": {
          "messages": [
            {
              "role": "user",
              "content": "Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! Grüß dich! \
Grüß dich! Grüß dich! "
            }
          ]
        }
      },
      "answer": {
        "status": 200,
        "headers": {"content-type": "text/event-stream"},
        "events": [
          {"event": "start", "data": {"id": 1}},
          {"data": null},
          "data: [DONE]\\n\\n"
        ]
      }
    }
  ]
}
"""
    )


WRONG: dict[str, tuple[Any, str]] = {
    "newer": ({"hookline_cassette": 2, "exchanges": 7}, r"newer Hookline \(format 2.*Upgrade"),
    "no version": ({"exchanges": []}, "no 'hookline_cassette' with a version.*record it anew"),
    "a list": ([], "is not a cassette"),
    "no exchanges": ({"hookline_cassette": 1}, "is not a cassette: Expected `array`"),
    "a wrong status": (
        {
            "hookline_cassette": 1,
            "exchanges": [{"request": {"method": "", "path": ""}, "answer": {"status": "200"}}],
        },
        r"Expected `int`, got `str` - at `\$\[0\]\.answer\.status`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_cassette_is_refused(name: str, path: Path) -> None:
    """When the cassette is made, with the place that is wrong and what to do."""
    content, problem = WRONG[name]
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(CassetteError, match=problem):
        Cassette(path)


def test_a_file_that_is_not_json_is_refused(path: Path) -> None:
    """A merge conflict, say."""
    path.parent.mkdir(parents=True)
    path.write_text('<<<<<<< HEAD\n{"hookline_cassette": 1}')
    with pytest.raises(CassetteError, match="it is not JSON"):
        Cassette(path)
    path.write_bytes(b"\xff")
    with pytest.raises(CassetteError, match="it is not JSON"):
        Cassette(path)


def test_a_file_that_cannot_be_written_is_an_error(path: Path) -> None:
    """And what was there stays."""
    path.mkdir(parents=True)
    with pytest.raises(CassetteError, match="cannot be written: Is a directory"):
        write(path, EXCHANGES)
    assert list(path.parent.iterdir()) == [path]
