"""Readers of configuration files, for all dialects: what is wrong is reported, and the rest stays in force."""

from __future__ import annotations

import json
import math
import re
import shutil
import stat
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from hookline.command_hooks.dialect import dialect_of
from hookline.command_hooks.handler import (
    DroppedHook,
    Handler,
    HookSearch,
    HookSource,
    JsonObject,
    Level,
    Warn,
    object_of,
    shown_path,
    text_of,
)
from hookline.errors import BuildError, UsageError

_LARGEST = 4 << 20
_USUAL = ("hooks/hooks.json",)
"""The usual file with the hooks of a plugin."""
_COMMENTS = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)
"""What some files have that is no JSON: comments, and a comma after the last of a list. Strings are matched, too.

What is never closed matches to the end of the text: else the search would start again at each later place, and take
quadratic time."""


def about(label: str, warn: Warn) -> Warn:
    """Warnings about one file, which begin with its name."""
    return lambda said: warn(type(said)(f"{label}: {said}"))


def load_file(path: Path, warn: Warn) -> JsonObject:
    """The object in a JSON or TOML file; an empty one if there is none that can be read."""
    text, form = load_text(path, warn), "TOML" if path.suffix == ".toml" else "JSON"
    if text is None:
        return JsonObject()
    try:
        found = _parse_toml(text) if form == "TOML" else _parse_json(text)
    except (ValueError, RecursionError) as error:
        warn(DroppedHook(f"it is not valid {form} ({error}), so none of it is read"))
        return JsonObject()
    if not isinstance(found, dict):
        warn(DroppedHook("it is not a JSON object, so none of it is read"))
    return object_of(found)


def _parse_toml(text: str) -> Any:
    import tomllib  # only where there is such a file

    return tomllib.loads(text)


def _parse_json(text: str) -> Any:
    """The value in a text that may have comments. An error is about the text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        try:  # first the comments, then the commas before them
            return json.loads(_COMMENTS.sub(_keep_string, _COMMENTS.sub(_keep_string, text)))
        except (ValueError, RecursionError):
            raise error from None


def load_text(path: Path, warn: Warn) -> str | None:
    """The text of a plain file that is not too large; None if there is none."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            warn(DroppedHook("it is not a plain file, so it is not read"))
            return None
        if facts.st_size > _LARGEST:
            warn(DroppedHook(f"it is larger than {_LARGEST >> 20} MB, so it is not read"))
            return None
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        warn(DroppedHook(f"it cannot be read ({error})"))
        return None


def _keep_string(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def quiet(_said: str) -> None:
    """Takes warnings that are reported elsewhere."""


# --- files and their entries ----------------------------------------------------------------------------


class HookFile(NamedTuple):
    """A file that is read: its content, what its hooks come from, and where warnings about it go."""

    source: HookSource
    content: JsonObject
    warn: Warn

    def read_nested(self, hooks: Any, make: MakeHook) -> Iterator[Handler]:
        """The hooks of `{event: [{matcher, hooks: [...]}]}`. What does not fit is reported and skipped."""
        for event, group in self._entries(hooks):
            if not isinstance(group.get("matcher", ""), str | None):
                self.warn(DroppedHook(f"{event}: a matcher is not text, so its hooks are ignored"))
                continue
            for hook in self._objects_in(group.get("hooks"), f"{event}: 'hooks'"):
                yield from _check(make(HookEntry(self, event, group, hook)), self.warn)

    def flat(self, hooks: Any, make: MakeHook) -> Iterator[Handler]:
        """The hooks of `{event: [{command, matcher, ...}]}`."""
        for event, hook in self._entries(hooks):
            yield from _check(make(HookEntry(self, event, hook, hook)), self.warn)

    def _entries(self, hooks: Any) -> Iterator[tuple[str, JsonObject]]:
        """The objects under each event that happens here."""
        if not isinstance(hooks, dict):
            self.warn(DroppedHook("'hooks' is not an object, so it has none"))
            return
        dialect = dialect_of(self.source)
        for event, entries in hooks.items():
            if event in dialect.unsupported:
                self.warn(f"{event} does not happen here, so its hooks never run")
            elif event not in dialect.events:
                self.warn(DroppedHook(f"'{event}' is not an event, so its hooks are ignored"))
            else:
                yield from ((event, each) for each in self._objects_in(entries, event))

    def _objects_in(self, value: Any, what: str) -> Iterator[JsonObject]:
        """The objects of a list; anything else is reported."""
        if not isinstance(value, list):
            self.warn(DroppedHook(f"{what} is not a list, so it is ignored"))
            return
        for each in value:
            if isinstance(each, dict):
                yield JsonObject(each)
            else:
                self.warn(DroppedHook(f"{what} has an entry that is not an object; it is ignored"))


class HookEntry(NamedTuple):
    """One hook in a file. `group` is what it is in; without groups, the entry itself."""

    file: HookFile
    event: str
    group: JsonObject
    fields: JsonObject

    def warn(self, said: str) -> None:
        """Report what is wrong with it."""
        self.file.warn(type(said)(f"{self.event}: {said}"))

    def text(self, key: str) -> str:
        """A field that is text; empty if it is anything else."""
        return self.fields.text(key)

    def seconds(self, default: float, *keys: str, unit: float = 1.0) -> float:
        """A time in seconds, by the first of the keys that is there."""
        for key in keys or ("timeout",):
            value = self.fields.get(key)
            if value is None:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and math.isfinite(value) and value > 0:
                return float(value) * unit
            self.file.warn(f"{key}={value!r} is not a time, so {default:g} s is used")
        return default

    def handler(self, **given: Any) -> Handler:
        """The hook that it describes."""
        matcher = self.group.get("matcher")
        said = {"event": self.event, "matcher": matcher, "hook": dict(self.fields)}
        fields = {"matcher": text_of(matcher), "definition": said, **given}
        return Handler(source=self.file.source, event=self.event, **fields)

    def address(self) -> dict[str, Any]:
        """The fields of a hook that is an address."""
        return {
            "kind": "http",
            "url": self.text("url"),
            "headers": self.fields.strings("headers"),
            "allowed_env": tuple(map(text_of, self.fields.array("allowedEnvVars"))),
        }


MakeHook: TypeAlias = Callable[[HookEntry], Handler | None]
"""Makes the hook of an entry; None for an entry that is none."""


def hook_file(source: HookSource, warn: Warn, content: Any = None) -> HookFile:
    """The file of a source, read; `content` if it was read already.

    A hook that an administrator requires and that is dropped is an error.
    """
    label, path = source.label, Path(source.path)

    def about_it(said: str) -> None:
        if isinstance(said, DroppedHook) and source.level is Level.MANAGED:
            raise BuildError(
                f"a hook that the administrator of this machine requires cannot be loaded: {label}: {said}",
                remedy="Have the file corrected.",
            )
        about(label, warn)(said)

    found = load_file(path, about_it) if content is None else JsonObject(content)
    return HookFile(source, found, about_it)


def _check(handler: Handler | None, warn: Warn) -> Iterator[Handler]:
    """A hook whose matcher and rule can be read. One that is dropped is reported: it guards nothing."""
    if handler is None:
        return
    try:
        dialect_of(handler).matcher(handler)
        if handler.rule:
            from hookline.command_hooks.permission_rules import check_rule  # takes a while to load

            check_rule(handler.rule)
    except UsageError as error:
        warn(DroppedHook(f"{handler.event}: the hook '{handler.runs[:80]}' is ignored: {error}"))
        return
    yield handler


def without_keys(hooks: Any, keys: Container[str]) -> Any:
    """Hooks by event, without keys that are no events."""
    if not isinstance(hooks, dict):
        return hooks
    return {key: value for key, value in hooks.items() if key not in keys}


def unique(handlers: Iterable[Handler], key: Callable[[Handler], object]) -> list[Handler]:
    """The hooks, of several with one key the first."""
    kept: dict[object, Handler] = {}
    for handler in handlers:
        kept.setdefault(key(handler), handler)
    return list(kept.values())


# --- plugins --------------------------------------------------------------------------------------------


class Plugin:
    """A plugin's directory, its manifest, and the files with its hooks."""

    def __init__(
        self,
        root: Path,
        search: HookSearch,
        manifests: Iterable[str],
        usual: tuple[str, ...] = _USUAL,
    ) -> None:
        self.root = root
        self.warn = about(shown_path(root, search.project, search.home), search.warn)
        found = [(name, load_file(root / name, self.warn)) for name in manifests]
        # Of several manifests one that has hooks counts.
        found = sorted(found, key=lambda each: ("hooks" not in each[1], not each[1]))
        self._path, self.manifest = found[0]
        self.usual = next((name for name in usual if (root / name).is_file()), usual[0])

    def files(self, *, and_usual: bool = False) -> Iterator[tuple[Path, JsonObject]]:
        """The files with hooks and their content: where the manifest says, in the manifest itself, or the usual one."""
        named = self.manifest.get("hooks", self.usual)
        given = list(named) if isinstance(named, list) else [named]
        if and_usual and "hooks" in self.manifest:
            given.insert(0, self.usual)
        for each in given:
            if isinstance(each, dict):
                content = JsonObject(each if "hooks" in each else {"hooks": each})
                yield self.root / self._path, content
            elif isinstance(each, str):
                path = self.root / each
                if not path.resolve().is_relative_to(self.root.resolve()):
                    self.warn(
                        DroppedHook(
                            f"its hooks would be outside of it, at '{each}', so they are not read"
                        )
                    )
                    continue
                yield path, load_file(path, self.warn)


def usual_shell() -> str:
    """bash, if the machine has it; else empty, for the plain shell."""
    return "bash" if shutil.which("bash") else ""
