"""Where the arguments of a call come from: from the user, from the model itself, or from the results of tools."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.capabilities.taint_policy.words import (
    PHRASE,
    Corpus,
    as_number,
    identifiers,
    is_commonplace,
    join_letters,
    join_words,
    readings,
    trim_ordinary,
    words,
)
from hookline.state import (
    EMPTY_LOG,
    AgentState,
    AssistantMessage,
    Attachment,
    Log,
    Message,
    ResultStatus,
    Step,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

_WINDOW = 8
_FEWEST_DIGITS = 4
"""Digits of a number that is more than a count."""
_COMMANDS = frozenset({"command", "cmd", "commands", "script", "argv", "args"})
"""Arguments that are command lines."""
_HEAD = 200
_RAN = frozenset({ResultStatus.OK, ResultStatus.ERROR})


class TrustedSources(NamedTuple):
    """Whose words are trusted."""

    result: Callable[[ToolCall], bool]
    """Whether nobody but the user can write what this call gives."""
    hook: Callable[[str], bool]
    attachments: bool = False


class TaintNotes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run keeps about who said what, in addition to its conversation."""

    prompts: tuple[str, ...] | None = None
    """Digests of the prompts of its runs; None if nobody noted them, and any message may be one."""
    kept: tuple[UserMessage | ToolMessage, ...] = ()
    """Messages that have left the conversation."""


NO_NOTES = TaintNotes()


def digest(text: str) -> str:
    """A digest by which a text is recognised."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:32]


class TaintedValue(NamedTuple):
    """An argument, what in it is not from the user, and where that is from."""

    argument: str
    value: str
    source: str


class Provenance:
    """What one run has read so far. `above` is that of the run that started it."""

    def __init__(
        self, trust: TrustedSources, system_prompt: str = "", above: Provenance | None = None
    ):
        self._trust = trust
        self._above = above
        self._trusted = Corpus()
        self._untrusted = Corpus()
        self._task = Corpus()
        """The prompt of the run above: words of a model, which may have read them somewhere."""
        self._own = set[str]()
        """What the model wrote in calls before it could have read it."""
        self._steps: Log[Step] = EMPTY_LOG
        self._messages: Log[Message] = EMPTY_LOG
        self._kept = 0
        self._prompts: tuple[str, ...] | None = None
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, set[str]] = {}
        """How the results of steps begin, by call, to recognise them in the conversation."""
        self._trusted.add(system_prompt)

    # --- reading ------------------------------------------------------------------------------------

    def read(self, state: AgentState, notes: TaintNotes = NO_NOTES) -> None:
        """Read what is new in a state. What was read stays known, whatever becomes of the conversation."""
        self._prompts = notes.prompts
        steps = _find_new(state.steps, self._steps)
        for step in steps:
            for call, result in zip(step.calls, step.results, strict=False):
                self._results.setdefault(call.id, set()).add(result.text[:_HEAD])
        # Steps come last: messages that belong to no step count as read before the model said anything.
        for message in (*notes.kept[self._kept :], *_find_new(state.messages, self._messages)):
            self._read_message(message)
        for step in steps:
            self._read_step(step)
        self._messages, self._steps, self._kept = state.messages, state.steps, len(notes.kept)

    def select_to_keep(self, messages: Sequence[Message]) -> list[UserMessage | ToolMessage]:
        """Of messages that leave the conversation, those that are nowhere else in the state."""
        return [
            message
            for message in messages
            if isinstance(message, UserMessage)
            or (isinstance(message, ToolMessage) and not self._is_result_of_step(message))
        ]

    def _read_message(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._calls.update((call.id, call) for call in message.calls)
            for use in message.provider_tool_uses:
                said = msgspec.json.encode(use.data).decode()
                self._untrusted.add(said, f"{use.name}, which {use.provider} ran")
        elif isinstance(message, ToolMessage):
            # Results of steps are read with them, and the reason why a call did not run is no result.
            if not self._is_result_of_step(message):
                call = self._calls.get(message.call_id) or ToolCall(message.call_id, message.name)
                self._keep(call, message.text)
        else:
            self._read_user(message)

    def _is_result_of_step(self, message: ToolMessage) -> bool:
        return message.text[:_HEAD] in self._results.get(message.call_id, ())

    def _read_user(self, message: UserMessage) -> None:
        is_prompt = not message.by and (
            self._prompts is None or digest(message.text) in self._prompts
        )
        if is_prompt:
            (self._trusted if self._above is None else self._task).add(message.text)
        else:
            corpus = self._trusted if self._trust.hook(message.by) else self._untrusted
            corpus.add(message.text, f"a message of {message.by or 'a hook'}")
        for attachment in message.attachments:
            believed = self._trust.attachments and self._above is None and is_prompt
            corpus = self._trusted if believed else self._untrusted
            corpus.add(
                attachment_text(attachment), f"the attachment {attachment.name or 'of the prompt'}"
            )

    def _read_step(self, step: Step) -> None:
        for call in step.calls:
            self._note_own(call)
        for call, result in zip(step.calls, step.results, strict=False):
            if result.status in _RAN:
                self._keep(call, result_text(result))
                for attachment in result.attachments:
                    self._keep(call, attachment_text(attachment))

    def _keep(self, call: ToolCall, text: str) -> None:
        corpus = self._trusted if self._trust.result(call) else self._untrusted
        corpus.add(text, f"{call.name} ({call.id})")

    def _note_own(self, call: ToolCall) -> None:
        for argument, value in leaves(call.args):
            if any(self._find_in_value(argument, value)):
                continue
            if not isinstance(value, str):
                self._own.add(as_number(value))
                continue
            for reading in readings(value):
                self._own.add(join_words(words(reading)))
                self._own.update(identifiers(reading, in_command=True))

    # --- judging ------------------------------------------------------------------------------------

    def findings(self, call: ToolCall) -> tuple[TaintedValue, ...]:
        """The values in the arguments of a call that come from results of tools and not from the user."""
        found: dict[str, TaintedValue] = {}
        arguments = list(leaves(call.args))
        for argument, value in arguments:
            for finding in self._find_in_value(argument, value):
                found.setdefault(argument, finding)
        for names, finding in self._find_in_all(arguments):
            if found.keys().isdisjoint(names):
                found[finding.argument] = finding
        return tuple(each for each in found.values() if not _is_inside(each.argument, found))

    def _find_in_value(self, argument: str, value: str | int | float) -> Iterator[TaintedValue]:
        if isinstance(value, str):
            yield from self._find_in_text(argument, value)
            return
        form = as_number(value)
        source = self._taint(form) if sum(map(str.isdigit, form)) >= _FEWEST_DIGITS else None
        if source is not None:
            yield TaintedValue(argument, str(value), source)

    def _find_in_text(self, argument: str, value: str) -> Iterator[TaintedValue]:
        for reading in readings(value):
            found = words(reading)
            form = join_words(found)
            if not form or self._is_trusted(form):
                continue
            in_command = argument.partition("[")[0] in _COMMANDS
            is_word = in_command and len(found) == 1 and found[0].isalpha()
            source = None if is_word else self._source_of_all(found)
            if source is not None:
                yield TaintedValue(argument, value, source)
                return
            for identifier, written in identifiers(reading, in_command=in_command).items():
                source = self._taint(identifier)
                if source is not None:
                    yield TaintedValue(argument, written, source)
            source = self._find_source(found)
            if source is not None:
                yield TaintedValue(argument, value, source)

    def _source_of_all(self, found: list[str]) -> str | None:
        """Where a whole value comes from, without the ordinary words around it."""
        if is_commonplace(found):
            return None
        core = trim_ordinary(found)
        source = self._source(join_words(found))
        return (
            source if source is not None or is_commonplace(core) else self._taint(join_words(core))
        )

    def _find_in_all(
        self, arguments: Sequence[tuple[str, Any]]
    ) -> Iterator[tuple[list[str], TaintedValue]]:
        """Long identifiers, however they are split and over however many arguments; with these arguments."""
        texts = [(name, join_letters(join_words(words(str(value))))) for name, value in arguments]
        whole = "".join(text for _, text in texts)
        windows = {whole[start : start + _WINDOW] for start in range(len(whole) - _WINDOW + 1)}
        for each in self._lineage():
            for letters, form in each._untrusted.long_identifiers.items():
                if letters[:_WINDOW] in windows and letters in whole:
                    source = self._taint(form)
                    if source is not None:
                        names = _find_arguments(texts, letters)
                        yield names, TaintedValue(" and ".join(names), form.strip(), source)

    def _find_source(self, found: list[str]) -> str | None:
        """Where most of a longer text comes from, in phrases that are not the user's."""
        copied = set[int]()
        for each in self._lineage():
            copied |= each._untrusted.find_copied(found)
        for each in self._lineage() if len(copied) * 2 > len(found) else ():
            copied -= each._trusted.find_copied(found)
        if len(copied) * 2 <= len(found):
            return None
        starts = (place for place in sorted(copied) if place + PHRASE <= len(found))
        sources = (self._source(join_words(found[start : start + PHRASE])) for start in starts)
        return next((source for source in sources if source is not None), "several results")

    def _taint(self, form: str) -> str | None:
        """Where words come from; None if they are the user's, or the model's own."""
        return None if self._is_trusted(form) else self._source(form)

    def _source(self, form: str) -> str | None:
        for each in reversed(tuple(self._lineage())):  # where it was first: later ones repeat it
            source = each._untrusted.where(form)
            if source is not None:
                return source
        return None

    def _is_trusted(self, form: str) -> bool:
        if form in self._own or self._trusted.has(form):
            return True
        if self._above is None:
            return False
        # What a model asked for is trusted like what it knew, unless it had read it somewhere.
        if self._task.has(form) and self._above._source(form) is None:
            return True
        return self._above._is_trusted(form)

    def _lineage(self) -> Iterator[Provenance]:
        """This run, and those above it."""
        each: Provenance | None = self
        while each is not None:
            yield each
            each = each._above


def _find_arguments(texts: Sequence[tuple[str, str]], letters: str) -> list[str]:
    """The argument that holds something, or those that hold the parts of it."""
    for name, text in texts:
        if letters in text:
            return [name]
    start = "".join(text for _, text in texts).index(letters)
    end, place, names = start + len(letters), 0, []
    for name, text in texts:
        if place < end and place + len(text) > start:
            names.append(name)
        place += len(text)
    return names


def _is_inside(argument: str, others: Container[str]) -> bool:
    """Whether one of the others is the text that this is a part of."""
    return any(
        argument[end] in "[." and argument[:end] in others for end in range(1, len(argument))
    )


def _find_new(now: Log[Any], before: Log[Any]) -> Sequence[Any]:
    new = now.since(before)
    return tuple(now) if new is None else new


# --- texts and numbers in values ---------------------------------------------------------------


_OPENING = ("{", "[")
_LISTED = re.compile(r"[,;|]")
_FEW_WORDS = 3
"""Words of one item, where a text may be a list of them."""


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The texts and numbers in arguments, each with its place: `recipients[0]`, `to.address`."""
    if isinstance(value, str):
        yield name, value
        yield from _inner(value, name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if name:  # what an argument is called is the tool's word; what is in it is the model's
                yield f"a key of {name}", str(key)
            yield from leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{name}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _inner(text: str, name: str) -> Iterator[tuple[str, Any]]:
    """The values in a text that is a list, or JSON."""
    if text.lstrip()[:1] in _OPENING:
        try:
            inner = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            inner = None
        if isinstance(inner, dict | list):
            yield from leaves(inner, name)
            return
    parts = _LISTED.split(text)
    if len(parts) > 1 and all(len(part.split()) <= _FEW_WORDS for part in parts):
        for place, part in enumerate(parts):
            yield f"{name}[{place}]", part


def result_text(result: ToolResult) -> str:
    """All that a result says, keys included: they can be written by others as well."""
    if result.error is not None:
        return str(result.error)
    return "\n".join(_texts(result.result))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield value if isinstance(value, str) else str(value)


def attachment_text(attachment: Attachment) -> str:
    """What an attachment says: its name, its address, and its content where that is text."""
    text = attachment.text() if attachment.is_text and attachment.data else ""
    return "\n".join((attachment.name, attachment.url, text))
