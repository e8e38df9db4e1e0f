"""`hookline show --html`, `show --svg` and `backtest --html`: which files are written, and for whom."""

from __future__ import annotations

import stat
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.exits import Exit

_TOKEN = "ghp_" + "A1b2C3d4" * 4 + "E5f6"
_READ = {"call": "read", "args": {"path": "notes.txt"}}


@pytest.fixture
def recorded(place: Any) -> Any:
    """A project with a run whose result has two secrets: one that is recognised, and one that the project names."""
    place.write("notes.txt", f"token {_TOKEN} and swordfish-7 <script>alert(1)</script>\n")
    place.write("hookline.toml", '[capabilities.redaction]\nvalues = ["swordfish-7"]\n')
    assert place.run("trust").returncode == 0
    model = place.script({"calls": [_READ]}, {"say": "Read."})
    flags = ("--without", "redaction", "--without", "bash", "--deny", "write")
    done = place.run("run", "--model", model, *flags, "Read <b>it</b>.")
    assert done.returncode == 0, done.stderr
    assert "swordfish-7" in place.run("show", "last", "--json").stdout
    return place


def test_show_writes_a_page_and_a_picture(recorded: Any) -> None:
    """Both at once, for their owner alone, without secrets; standard output stays empty."""
    done = recorded.run("show", "last", "--html", "run.html", "--svg", "run.svg")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr == "hookline: wrote run.html\nhookline: wrote run.svg\n"
    page, picture = (recorded.project / name for name in ("run.html", "run.svg"))
    for file in (page, picture):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert _TOKEN not in file.read_text(encoding="utf-8")
        assert "swordfish-7" not in file.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "[redacted:github-token]" in text
    assert "hookline show" in text
    assert "“Read <b>it</b>.”" in ElementTree.parse(picture).getroot().itertext()


def test_the_page_names_the_run_that_it_continues(recorded: Any) -> None:
    """The conversation before it is in another run."""
    model = recorded.script({"say": "Again."}, name="again.json")
    flags = ("--without", "bash", "--model", model)
    done = recorded.run("run", "-c", *flags, "Go on.")
    assert done.returncode == 0, done.stderr
    assert recorded.run("show", "last", "--html", "run.html").returncode == 0
    text = (recorded.project / "run.html").read_text(encoding="utf-8")
    assert "Continues a conversation" in text
    assert "What was said before: 2 messages" in text
    assert "Read &lt;b&gt;it&lt;/b&gt;." in text


def test_a_file_that_exists_is_replaced_only_if_asked(recorded: Any) -> None:
    """By a new file with its own rights; a link is not followed, and what is no file stays as it is."""
    page = recorded.write("run.html", "mine\n")
    page.chmod(0o644)
    refused = recorded.run("show", "last", "--svg", "new.svg", "--html", "run.html")
    assert refused.returncode == Exit.USAGE
    assert "run.html exists. Name another file, or replace it: --force." in refused.stderr
    assert page.read_text() == "mine\n"
    assert not (recorded.project / "new.svg").exists()
    other = page.with_name("other.html")
    other.hardlink_to(page)
    assert recorded.run("show", "last", "--html", "run.html", "--force").returncode == 0
    assert page.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert other.read_text() == "mine\n"
    link, folder = page.with_name("link.html"), page.with_name("folder.html")
    link.symlink_to("nowhere.html")
    folder.mkdir()
    for name in (link.name, folder.name):
        done = recorded.run("show", "last", "--html", name, "--force")
        assert done.returncode == Exit.USAGE
        assert f"{name} is not a regular file" in done.stderr
    assert link.is_symlink()
    assert not page.with_name("nowhere.html").exists()
    missing = recorded.run("show", "last", "--html", "no/such/run.html")
    assert "no/such/run.html: No such file or directory." in missing.stderr
    left = {path.name for path in recorded.project.iterdir()}
    assert left == {
        "notes.txt",
        "hookline.toml",
        "run.html",
        "other.html",
        "link.html",
        "folder.html",
    }


def test_a_back_test_writes_its_page_in_the_same_way(recorded: Any) -> None:
    """It is refused before the back-test is made, and its page has no secrets either."""
    taken: Path = recorded.write("report.html", "mine\n")
    flags = ("--without", "bash", "--deny", "read", "--without", "redaction")
    refused = recorded.run("backtest", *flags, "--html", "report.html")
    assert (refused.returncode, refused.stdout) == (Exit.USAGE, "")
    assert taken.read_text() == "mine\n"
    done = recorded.run("backtest", *flags, "--html", "report.html", "--force")
    assert done.returncode == 0, done.stderr
    assert "1 verdict would change" in done.stdout
    page = taken.read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "Back-test: 1 verdict would change" in page
    assert stat.S_IMODE(taken.stat().st_mode) == 0o600
