from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.permissions import Rule


def covers(rule: str, path: object, root: Path | str, tool: str = "write") -> bool:
    """Whether a rule about a path covers a call."""
    return Rule.parse(f"{tool}({rule})").covers(ToolCall("1", tool, {"path": path}), root)


def touches(rule: str, path: object, root: Path | str, tool: str = "write") -> bool:
    """Whether a rule about a path touches a call."""
    return Rule.parse(f"{tool}({rule})").touches(ToolCall("1", tool, {"path": path}), root)


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("src/**", "src/a src/a/b.py ./src/a src//a src", "srcs/a a/src/b other ../src/a"),
        ("src/*", "src/a src/.b", "src/a/b a"),
        ("src/*.py", "src/a.py", "src/a.pyc src/d/a.py"),
        ("*.py", "a.py d/a.py d/e/a.py", "a.pyc"),
        ("/*.py", "a.py", "d/a.py"),
        ("./a.py", "a.py", "d/a.py"),
        ("**/test_*.py", "test_a.py d/test_a.py", "d/a_test.py"),
        ("src/**/x", "src/x src/a/x src/a/b/x", "x src/x/y"),
        ("a?c", "abc d/axc", "ac abbc"),
        ("docs/", "docs/a docs/b/c", "doc"),
        ("**", "a a/b .", "../a /etc/passwd"),
        (r"a\*b", "a*b", "axb"),
        (r"app/\[id\]/x", "app/[id]/x", "app/i/x"),
    ],
)
def test_patterns(tmp_path: Path, rule: str, inside: str, outside: str) -> None:
    """Globs over paths mean what they mean in a .gitignore, below the root."""
    for path in inside.split():
        assert covers(rule, path, tmp_path), path
        assert touches(rule, path, tmp_path), path
    for path in outside.split():
        assert not covers(rule, path, tmp_path), path


def test_to_forbid_a_directory_is_to_forbid_what_is_in_it(tmp_path: Path) -> None:
    """A name that is allowed is that name; one that is forbidden is all below it, too."""
    assert not covers("secrets", "secrets/a", tmp_path)
    assert touches("secrets", "secrets/a/b", tmp_path)
    assert touches("*.d", "x/y.d/z", tmp_path)
    assert not touches("secrets", "secret/a", tmp_path)


def test_paths_from_the_top_and_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`//` begins at the top, `~/` at home; `/` begins at the root, and forbids both of what it may mean."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert covers("//etc/**", "/etc/passwd", tmp_path)
    assert covers(f"/{tmp_path}/a/**", "a/b", tmp_path)
    assert covers("~/notes/**", str(home / "notes" / "x"), tmp_path)
    assert not covers("~/notes/**", "~/notes/x", tmp_path)  # a tool may not expand it
    assert touches("~/notes/**", "~/notes/x", tmp_path)
    assert covers("/etc/passwd", "etc/passwd", tmp_path)
    assert not covers("/etc/passwd", "/etc/passwd", tmp_path)
    assert touches("/etc/passwd", "/etc/passwd", tmp_path)


def test_dots_and_links_widen_nothing(tmp_path: Path) -> None:
    """A way out of an allowed directory is not allowed, and a way into a forbidden one is forbidden."""
    root = tmp_path / "root"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "secret").mkdir()
    (root / "src" / "out").symlink_to("/etc")
    (root / "src" / "side").symlink_to(root / "secret")
    (root / "into").symlink_to(root / "src")
    for path in ("src/../secret/x", "src/out/passwd", "src/side/x", "src/deep/../../secret/x"):
        assert not covers("src/**", path, root), path
    assert covers("src/**", "src/deep/../a", root)
    assert not covers("src/**", "into/a", root)
    assert touches("secret/**", "src/side/x", root)
    assert touches("secret/**", "src/../secret/x", root)
    assert touches("src/**", "into/a", root)
    (root / "src" / "out2").symlink_to(root / "secret" / "deeper")  # leads nowhere yet
    assert not covers("src/**", "src/out2", root)


def test_a_root_that_is_a_link_is_the_same_root(tmp_path: Path) -> None:
    """Paths through a link to the root are paths in the root."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert covers("src/**", str(tmp_path / "link" / "src" / "a"), tmp_path / "link")
    assert covers("src/**", str(tmp_path / "real" / "src" / "a"), tmp_path / "link")
    assert covers("src/**", "src/a", tmp_path / "link")


@pytest.mark.parametrize("path", [None, 7, ["a", 7], {"a": 1}, "src/\0x"])
def test_what_is_no_path_is_forbidden_and_never_allowed(tmp_path: Path, path: object) -> None:
    """An argument that leads nowhere may be anything."""
    assert not covers("**", path, tmp_path) or path is None
    if path is not None:
        assert touches("nothing/like/it", path, tmp_path)


def test_several_paths_must_all_be_meant(tmp_path: Path) -> None:
    """A call with several paths is allowed if all are, and forbidden if one is."""
    rule = Rule.parse("copy_file(src/**)")
    within = ToolCall("1", "copy_file", {"source": "src/a", "destination": "src/b"})
    without = ToolCall("1", "copy_file", {"source": "src/a", "destination": "b"})
    assert rule.covers(within, tmp_path)
    assert not rule.covers(without, tmp_path)
    assert rule.touches(without, tmp_path)


def test_any_tool_with_a_path_is_compared_by_path(tmp_path: Path) -> None:
    """A rule about a tool of one's own is no plain text comparison when its argument is a path."""
    rule = Rule.parse("mcp__fs__write_file(src/**)")
    assert rule.covers(
        ToolCall("1", "mcp__fs__write_file", {"path": "src/a", "content": "x"}), tmp_path
    )
    assert not rule.covers(
        ToolCall("1", "mcp__fs__write_file", {"path": "src/../../x", "content": ""}), tmp_path
    )
    named = Rule.parse("save(target_path=src/**)")
    assert not named.covers(ToolCall("1", "save", {"target_path": "src/../x"}), tmp_path)


def test_globbing(tmp_path: Path) -> None:
    """A glob is about where it begins."""
    glob = Rule.parse("glob(src/**)")
    for pattern, expected in [
        ("src/**/*.py", True),
        ("**/*.py", False),
        ("src/../**", False),
        ("src/*/../../**", False),
        ("/etc/*", False),
    ]:
        call = ToolCall("1", "glob", {"pattern": pattern, "path": "."})
        assert glob.covers(call, tmp_path) is expected, pattern


def test_a_search_is_one_of_all_that_is_there(tmp_path: Path, monkeypatch: Any) -> None:
    """Where a forbidden file is somewhere below, nothing is searched; elsewhere it is."""
    for name in ("secret/keys/a", "src/a.py", "web/config/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")

    def searched(rule: str) -> list[str]:
        return [
            path
            for path in (".", "secret", "secret/keys", "src", "web", "web/config", "gone")
            if Rule.parse(rule).touches(
                ToolCall("1", "search", {"pattern": "x", "path": path}), tmp_path
            )
        ]

    assert searched("read(secret/keys/**)") == [".", "secret", "secret/keys"]
    assert searched("read(.env)") == [".", "web", "web/config"]
    assert searched("read(*.pem)") == []
    assert not Rule.parse("read(.env)").touches(ToolCall("1", "list", {"path": "."}), tmp_path)
    monkeypatch.setattr("hookline.permissions.paths._MOST_FILES", 2)
    assert "." in searched("read(*.pem)")


# --- against an oracle --------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab", "a.b"])
PARTS = st.sampled_from(["a", "b", "*", "**", "a*", "?", "*b", "a.b"])


def oracle(pattern: list[str], path: list[str]) -> bool:
    """All ways to put the names of a path onto the parts of a pattern, tried one after the other."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(oracle(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    return bool(path) and letters(pattern[0], path[0]) and oracle(pattern[1:], path[1:])


def letters(pattern: str, name: str) -> bool:
    """The same for the letters of one name."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(letters(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and letters(pattern[1:], name[1:])


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(NAMES, max_size=5))
def test_patterns_match_what_an_oracle_says(parts: list[str], names: list[str]) -> None:
    """However a pattern is made, it means what trying all possibilities says it means."""
    root = "/nowhere/at/all"
    path = "/".join(names) or "."
    expected = oracle(parts, names)
    assert covers("./" + "/".join(parts), path, root) is expected
    above = any(oracle(parts, names[:count]) for count in range(len(names) + 1))
    assert touches("./" + "/".join(parts), path, root) is above


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b", "~", "...", "a/b"]), max_size=6))
def test_no_path_gets_out(names: list[str]) -> None:
    """Whatever a path is made of, a rule for a directory covers it only if it leads there."""
    root = "/nowhere/at/all"
    path = "/".join(names) or "."
    if covers("a/**", path, root):
        assert os.path.normpath(os.path.join(root, path)).startswith(f"{root}/a")
