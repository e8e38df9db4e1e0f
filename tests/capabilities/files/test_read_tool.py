from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hookline.capabilities import Files
from hookline.capabilities.files import read_tool, text
from hookline.state import ToolResult
from hookline.testing import call

Use = Callable[..., list[ToolResult]]


def text_of(use: Use, path: str, **arguments: int) -> str:
    """What the model reads."""
    return use(call("read", path=path, **arguments))[0].text


def test_lines_are_numbered(use: Use) -> None:
    """As they can be named in what follows; a file without anything to say about it has no note."""
    assert text_of(use, "notes.txt") == "     1\tone\n     2\ttwo\n     3\tthree"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"offset": 2, "limit": 1}, "     2\ttwo\n[lines 2-2 of 3; continue with offset=3]"),
        ({"offset": 3}, "     3\tthree\n[lines 3-3 of 3]"),
        ({"offset": -1}, "     3\tthree\n[lines 3-3 of 3]"),
        ({"offset": -9}, "     1\tone\n     2\ttwo\n     3\tthree"),
        ({"offset": 0}, "     1\tone\n     2\ttwo\n     3\tthree"),
        ({"limit": 2}, "     1\tone\n     2\ttwo\n[lines 1-2 of 3; continue with offset=3]"),
        (
            {"offset": 4},
            "Error: 'notes.txt' has 3 lines, so there is no line 4. Use an offset from 1 to 3.",
        ),
        ({"limit": 0}, "Error: limit is 0. Use at least 1."),
    ],
)
def test_ranges(use: Use, arguments: dict[str, int], expected: str) -> None:
    """A part is shown with what part it is, and how to continue."""
    assert text_of(use, "notes.txt", **arguments) == expected


def test_long_lines_and_files_are_cut(use: Use, root: Path) -> None:
    """With a note that says how much is missing, and never beyond what a conversation can bear."""
    (root / "long.txt").write_text("x" * 5000 + "\nshort\n")
    first, second, note = text_of(use, "long.txt").split("\n")
    assert first.endswith("x... [3,000 more characters in this line]")
    assert second.endswith("short")
    assert note.startswith("[line 1 not shown whole;")
    (root / "many.txt").write_text("".join(f"{n} {'y' * 90}\n" for n in range(5000)))
    shown = text_of(use, "many.txt")
    assert len(shown) < read_tool.MOST_CHARACTERS + 200
    last = shown.splitlines()[-1]
    assert last.startswith("[lines 1-") and " of 5000; continue with offset=" in last  # noqa: PT018 (one line, two ends)
    assert (
        text_of(use, "many.txt", offset=int(last.partition("offset=")[2][:-1]))
        .lstrip()[0]
        .isdigit()
    )


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("é\n".encode(), "     1\té"),
        ("é\n".encode("utf-8-sig"), "     1\té\n[encoding: utf-8 with a byte order mark]"),
        ("é\n".encode("utf-16"), "     1\té\n[encoding: utf-16]"),
        (b"\xfe\xff" + "é\n".encode("utf-16-be"), "     1\té\n[encoding: utf-16]"),
        (b"\x01\0\x02\0\x03\0", "[f is a binary file, 6 bytes, and has no text to show]"),
        (b"a\0b\0c", "[f is a binary file, 5 bytes, and has no text to show]"),
        ("é\n".encode("utf-32"), "     1\té\n[encoding: utf-32]"),
        ("é\n".encode("latin-1"), "     1\té\n[encoding: latin-1 (it is not UTF-8)]"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end with CRLF]"),
        (b"a\rb", "     1\ta\rb"),
        (b"no end", "     1\tno end"),
        (b"\n", "     1\t"),
        (b"", "(f is empty)"),
    ],
)
def test_encodings_and_line_ends_are_reported(
    use: Use, root: Path, content: bytes, shown: str
) -> None:
    """Whatever is not plain UTF-8 is read all the same, and said."""
    (root / "f").write_bytes(content)
    assert text_of(use, "f") == shown


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (64).to_bytes(4) + (48).to_bytes(4) + b"\x08\x06\0\0\0"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + (30).to_bytes(2) + (40).to_bytes(2) + b"\x03"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (PNG, "a PNG image, 29 bytes"),
        (JPEG, "a JPEG image"),
        (
            b"GIF89a" + (3).to_bytes(2, "little") + (5).to_bytes(2, "little") + b"\0",
            "a GIF image",
        ),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a WebP image"),
        (b"%PDF-1.7\n\0", "a PDF document"),
        (b"\x7fELF\0\0", "a program"),
        (b"PK\x03\x04\0", "a zip archive"),
        (b"a\0b", "a binary file, 3 bytes"),
        (b"\xff\xfe\x00", "a binary file"),
        (b"caf\xe9 \x01\x02\x03", "a binary file"),
    ],
)
def test_what_is_no_text_is_named(use: Use, root: Path, content: bytes, what: str) -> None:
    """By what it is, with the size of a picture; the model gets no bytes."""
    (root / "f").write_bytes(content)
    assert text_of(use, "f").startswith(f"[f is {what}")


def test_images_can_be_attached(use: Use, root: Path) -> None:
    """For models that can see: after the step, as a message of its own."""
    from hookline import AgentBuilder
    from hookline.testing import ScriptedDriver, calls, say

    (root / "a.png").write_bytes(PNG)
    driver = ScriptedDriver(
        [calls(call("read", path="a.png"), call("read", path="notes.txt")), say("ok")]
    )
    files = Files(root, images="attach")
    result = AgentBuilder().with_driver(driver).with_capability(files).build().run_sync("Look.")
    message = result.state.messages[-2]
    assert (message.role, message.by) == ("user", "files-images")  # type: ignore[union-attr]
    (image,) = message.attachments  # type: ignore[union-attr]
    assert (image.media_type, image.name, image.content()) == ("image/png", "a.png", PNG)


def test_a_file_that_is_too_large_is_not_read(
    use: Use, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to use instead."""
    monkeypatch.setattr(text, "LARGEST", 100)
    (root / "f").write_text("x" * 101)
    assert "too large for the file tools. Use a command that reads a part" in text_of(use, "f")
    (root / "f").write_text("x" * 100)
    assert text_of(use, "f").startswith("     1\txxx")


def test_a_file_of_one_long_line(use: Use, root: Path) -> None:
    """It does not fill the conversation."""
    (root / "f").write_text("x" * 300_000 + "\nend")
    first, second, _ = text_of(use, "f").split("\n")
    assert first.endswith("x... [298,000 more characters in this line]")
    assert second == "     2\tend"


def test_what_is_not_there_gets_a_suggestion(use: Use) -> None:
    """The closest name, or where to look."""
    assert (
        text_of(use, "src/mian.py")
        == "Error: there is no 'src/mian.py'. Did you mean 'src/main.py'?"
    )
    assert "its directory does not exist" in text_of(use, "nowhere/x.py")
    assert text_of(use, "zzz") == "Error: there is no 'zzz'. Look for it with `glob` or `list`."
    assert (
        text_of(use, "src")
        == "Error: 'src' is a directory, not a file. Use `list` to see what is in it."
    )


def test_a_token_is_not_cut_in_two() -> None:
    """Of a word that stands where a line is cut nothing is shown: half a token does not look like one."""
    token = "AIzaSyA0123456789abcdefghijABCDEFGHIJ01"
    for place in range(1_962, 2_000):
        line = f"{'x' * place} {token} {'y' * 900}"
        shown = read_tool.cut(line)
        assert (
            shown == f"{'x' * place} ... [{len(line) - place - 1:,} more characters in this line]"
        )
