"""Who runs command hooks knows no dialect: all of one is in its own file or folder."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator
from pathlib import Path

import hookline
from hookline.command_hooks.dialect import all_dialects
from hookline.config.schema import Configuration

HINTS = typing.get_type_hints(Configuration)
SOURCE = Path(hookline.__file__).parent
PACKAGES = ("command_hooks", "config", "cli")
DIALECTS = "command_hooks/dialects"

READERS = {"dialects.hookline", "dialects.pages", "dialects.config_files"}
"""What reads hooks that a program, our configuration, a subagent or a skill names."""
EXCEPTIONS = {
    "command_hooks/capability.py": {"claude"},  # the default of `CommandHooks.from_file`
    "config/schema.py": {  # the names of dialects in a configuration, and a key
        "claude", "gemini", "codex", "cursor", "copilot", "claude_settings",
    },
    "config/untrusted.py": {"claude_settings"},  # that key, and its flag
    "cli/options.py": {"claude_settings"},
    "cli/parser.py": {
        "claude_settings",
        "run the hooks of a plugin for Claude Code or Codex",
        "run the hooks of a settings file of Claude Code",
    },
    "cli/assembly/command_hooks.py": {
        "claude_settings",
        'Name a settings file of Claude Code: {"hooks": {...}}.',
        "Put its hooks into .claude/settings.json, which is read anyway.",
    },
}  # fmt: skip
"""Names that are public, with the modules that have them."""


def test_no_module_outside_of_the_dialects_names_one() -> None:
    """Neither in a text or a name nor by its module. Docstrings may give an example."""
    found: dict[str, set[str]] = {}
    imports: list[tuple[str, str]] = []
    for path in sorted(path for package in PACKAGES for path in (SOURCE / package).rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        if where.startswith(DIALECTS) or where == "command_hooks/__init__.py":
            continue
        tree = ast.parse(path.read_text())
        words = {word for word in _words(tree) if _names_dialect(word)}
        if words:
            found[where] = words
        imports += [(where, each) for each in _dialect_modules(tree) if each not in READERS]
    assert found == EXCEPTIONS
    assert imports == []


def test_a_configuration_may_name_every_dialect_that_has_files() -> None:
    """The schema is a layer below the dialects, so it has a list of its own."""
    told = HINTS["dialects"].__args__[0].__args__[0].__args__
    ours = {  # a page of the documentation adds one
        name: each
        for name, each in all_dialects().items()
        if type(each).__module__.startswith("hookline.")
    }
    assert list(told) == [name for name, each in ours.items() if each.has_files]


def test_a_name_of_a_dialect_is_noticed() -> None:
    """In a comparison, a table, a variable, an attribute and an import; not in a docstring."""
    text = """
'''Runs claude's hooks.'''
from hookline.command_hooks.dialects.claude.tools import TOOLS
_CLAUDES = "models-"
"Like cursor."
def is_gemini(name): return name.is_copilot or name in {"x": "CODEX_HOME"}
"""
    tree = ast.parse(text)
    noticed = {word for word in _words(tree) if _names_dialect(word)}
    assert noticed == {"_CLAUDES", "is_gemini", "is_copilot", "CODEX_HOME"}
    assert list(_dialect_modules(tree)) == ["dialects.claude.tools"]


def _names_dialect(word: str) -> bool:
    names = [name for name in all_dialects() if name != "hookline"]  # what our configuration has
    return any(name in word.lower() for name in names)


def _words(tree: ast.AST) -> Iterator[str]:
    """The texts and the names in a module, without docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def _dialect_modules(tree: ast.AST) -> Iterator[str]:
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    inside = (each.partition("command_hooks.")[2] for each in modules)
    return (each for each in inside if each.startswith("dialects"))
