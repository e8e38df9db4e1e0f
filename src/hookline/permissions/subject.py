"""What the argument of a rule is compared with: the commands, paths, address or text of a call."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from hookline.containment.shell.command_parts import parts_of, possible_parts
from hookline.containment.shell.command_pattern import CommandPart
from hookline.errors import HooklineError
from hookline.permissions.names import COMMAND_TOOLS, FILE_TOOLS
from hookline.permissions.paths import PathPlace, Root, fixed_part
from hookline.shell_text.runners import can_run_others
from hookline.state import ToolCall

_COMMANDS = ("command", "cmd", "commands", "script", "argv")
_PATHS = ("path", "paths", "file", "files", "filepath", "filename", "directory", "dir", "folder")
_PATH_ENDINGS = ("_path", "_paths", "_file", "_dir", "_directory", "_folder")
_MOVES = frozenset({"source", "destination"})
_MOVERS = frozenset({"cd", "pushd", "popd"})
_ADDRESSES = ("url", "uri", "address")
WHERE = "cwd"
"""The argument that says in which directory a command runs."""


class SubjectKind(enum.Enum):
    """What the argument of a rule is, for a call."""

    COMMAND = "command"
    PATH = "path"
    ADDRESS = "address"
    TEXT = "text"


class Subject(NamedTuple):
    """What a call is about. A rule that allows must cover all parts; one that forbids need match only one."""

    kind: SubjectKind
    parts: tuple[Any, ...]
    is_whole: bool
    """Whether these are all parts. What is not known is never covered."""
    also: tuple[Any, ...] = ()
    """What it may also be about: it can be forbidden, and need not be covered."""


def subject_of(call: ToolCall, root: Root) -> Subject:
    """What a call is certainly about, by its tool and the names of its arguments."""
    subjects = subjects_of(call, root)
    if len(subjects) > 1 and subjects[1].kind is not SubjectKind.TEXT:
        # For example a command and a path: a rule has to name the one it means.
        return Subject(subjects[0].kind, (), False)
    return subjects[0]


def subjects_of(call: ToolCall, root: Root) -> list[Subject]:
    """All that a call may be about. Its texts come last."""
    if call.name in COMMAND_TOOLS:
        return [_commands(call.args)]
    if call.name in FILE_TOOLS:
        return [_places(call, dict(_path_arguments(call)), root)]
    found: list[Subject] = []
    if any(name in call.args for name in _COMMANDS):
        found.append(_commands(call.args))
    if paths := dict(_path_arguments(call)):
        found.append(_places(call, paths, root))
    addresses = tuple(call.args[name] for name in _ADDRESSES if name in call.args)
    if addresses:
        is_text = all(isinstance(each, str) for each in addresses)
        found.append(Subject(SubjectKind.ADDRESS, addresses if is_text else (), is_text))
    texts = tuple(value for value in call.args.values() if isinstance(value, str))
    return [*found, Subject(SubjectKind.TEXT, texts, len(texts) == 1)]


_ABSENT = object()


def has_relative_program(call: ToolCall) -> bool:
    """Whether a command of a call names a program from where it runs, as `./run.sh` does, or may do so."""
    if call.name not in COMMAND_TOOLS and not any(name in call.args for name in _COMMANDS):
        return False
    parts = _commands(call.args).parts
    return not parts or any(_is_relative(part) for part in parts)


def has_directory_change(call: ToolCall) -> bool:
    """Whether a command line goes to another directory on its way: what follows runs there."""
    return any(
        word in _MOVERS
        for part in _commands(call.args).parts
        for word in (part.argv or part.words)[:1]
    )


def _is_relative(part: CommandPart) -> bool:
    """Whether one command names a program from where it runs, itself or as what it starts."""
    words = part.argv or part.words
    named = words if can_run_others(words) else words[:1]
    return any(
        not isinstance(word, str) or ("/" in word and not word.startswith(("/", "-")))
        for word in named
    )


def value_of(call: ToolCall, name: str, root: Root) -> Subject | None:
    """What one argument of a call is, for a rule that names it; None if the call has no such argument."""
    value = _argument(call, name)
    if value is _ABSENT:
        return None
    if name in _COMMANDS:
        return _commands({name: value})
    if _is_path(name):
        return _places(call, {name: value}, root)
    if isinstance(value, str):
        # No path: `cwd=sub` in a rule is that directory, and as a pattern for files it is one at any depth.
        is_where = name == WHERE and call.name in COMMAND_TOOLS
        texts = root.forms(value) if is_where else (value,)
        return Subject(SubjectKind.TEXT, texts, bool(texts))
    return Subject(SubjectKind.TEXT, (msgspec.json.encode(value).decode(),), True)


def texts_of(call: ToolCall, name: str) -> tuple[str, ...] | None:
    """All texts in an argument, at any depth; None if it is missing, and the tool has a default."""
    value = _argument(call, name)
    return None if value is None or value is _ABSENT else tuple(_texts_in(value))


def _argument(call: ToolCall, name: str) -> Any:
    value: Any = call.args
    for key in name.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)
    else:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _commands(args: Mapping[str, Any]) -> Subject:
    given = [value for name, value in args.items() if name in _COMMANDS and value is not None]
    if isinstance(args.get("args"), list) and len(given) == 1 and isinstance(given[0], str):
        given = [[given[0], *args["args"]]]  # a program, and its arguments apart
    if len(given) != 1:
        return Subject(SubjectKind.COMMAND, (), False)
    if isinstance(given[0], str):
        return _read(given[0])
    if isinstance(given[0], list) and given[0] and all(isinstance(word, str) for word in given[0]):
        argv = tuple(given[0])
        return Subject(SubjectKind.COMMAND, (CommandPart(argv),), True)
    return Subject(SubjectKind.COMMAND, (), False)


def _read(text: str) -> Subject:
    """The commands of a command line. One that cannot be read consists of all commands that it may run."""
    try:
        from hookline.containment import read_command

        reading = read_command(text)
        commands = () if reading.problem else reading.commands
    except (ImportError, HooklineError):  # its parser is not installed
        commands = ()
    if not commands:
        return Subject(SubjectKind.COMMAND, possible_parts(text), False)
    parts, also = parts_of(text, commands)
    return Subject(SubjectKind.COMMAND, parts, all(map(_is_its_words, commands)), also)


def _is_its_words(command: Any) -> bool:
    """Whether the words of a command say all of it. A redirect to a file is not in the words."""
    is_quiet = all(
        each.operator in (">&", "<&") or each.target.text == "/dev/null"
        for each in getattr(command, "redirects", ())
    )
    return bool(command.argv) and is_quiet


def _places(call: ToolCall, paths: Mapping[str, Any], root: Root) -> Subject:
    given = [each for value in paths.values() for each in _as_list(value)]
    if call.name == "glob" and isinstance(pattern := call.args.get("pattern"), str):
        base = given[0] if given and isinstance(given[0], str) else "."
        fixed = fixed_part(pattern)
        given = [None if fixed is None else f"{base}/{fixed}" if fixed[:1] != "/" else fixed]
    elif not given and call.name in FILE_TOOLS:
        given = ["."]
    places: list[PathPlace | None] = [
        root.place(path) if isinstance(path, str) else None for path in given
    ]
    known = tuple(place for place in places if place is not None)
    return Subject(SubjectKind.PATH, known, bool(known) and len(known) == len(places))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _path_arguments(call: ToolCall) -> Iterator[tuple[str, Any]]:
    is_move = call.args.keys() >= _MOVES
    for name, value in call.args.items():
        if _is_path(name) or (is_move and name in _MOVES):
            yield name, value


def _is_path(name: str) -> bool:
    return name in _PATHS or name.endswith(_PATH_ENDINGS)
