"""The model of a person who has configured none: what there is to choose from, the question, and the answer.

Until it is answered, no key is used and nothing is sent, except to ask this machine for the names of its models.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.cli.assembly.verification import load_verified
from hookline.cli.guards import Guards, can_ask
from hookline.cli.terminal import fit_text, printable, report, width, wrap_text
from hookline.config import Layer
from hookline.config.locations import own_file
from hookline.config.own_file import write_model
from hookline.errors import BuildError, ConfigError, UsageError
from hookline.providers import provider_names, split_name
from hookline.providers.catalogue import key_variables, missing_extra
from hookline.providers.local.weights import DEFAULT, models_folder

SMALL = "local:"
_LOOPBACK = "127.0.0.1"
_SERVERS = {"ollama": ("Ollama", 11434), "lmstudio": ("LM Studio", 1234)}
"""The programs that offer models on this machine, and the port of each if nobody has changed it."""
_PATIENCE = 0.3
"""Seconds in which both ports have answered, or are not waited for."""
_LARGEST = 1 << 20
_MOST = 20
_MODEL_NAME = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
"""Any program may listen on a port: what is no name is not shown."""
_COLUMN = 24
"""Columns of a name; a longer one moves only its own line."""
_DIGITS = 4
_NO_CHAT = "embed"
"""Models with this in their name answer no question."""


class Choice(NamedTuple):
    """A model, or a provider (`anthropic:`) whose model has to be named."""

    model: str
    about: str

    @property
    def needs_name(self) -> bool:
        """Whether the person has to say which model of the provider."""
        return self.model.endswith(":") and self.model != SMALL


def find_choices(folder: Path) -> list[Choice]:
    """What can be used here; the default answer first. Both ports are asked for their models."""
    return [
        Choice(SMALL, "the small model here: no key, often wrong"),
        *_files(folder),
        *_server_choices(),
        *_key_choices(),
    ]


def _files(folder: Path) -> Iterator[Choice]:
    if missing_extra("local"):
        return
    for place in dict.fromkeys((models_folder(), folder)):
        with contextlib.suppress(OSError):
            found = [path for path in sorted(place.glob("*.gguf")) if path != DEFAULT.path]
            for path in found[:_MOST]:
                yield Choice(f"local:{path}", f"a file, {path.stat().st_size / 1e9:.1f} GB")


def _server_choices() -> Iterator[Choice]:
    for provider, names in _ask_servers().items():
        extra = missing_extra(provider)
        needs = f"; needs the extra {extra}" if extra else ""
        for name in names[:_MOST]:
            yield Choice(f"{provider}:{name}", f"{_SERVERS[provider][0]} on this machine{needs}")


def _key_choices() -> Iterator[Choice]:
    for provider in provider_names():
        variable = next((each for each in key_variables(provider) if os.environ.get(each)), "")
        if variable and not missing_extra(provider):
            yield Choice(f"{provider}:", f"{variable} is set; it costs money")


# --- servers on this machine --------------------------------------------------------------------------


def _ask_servers() -> dict[str, list[str]]:
    """The models of each server that has answered in time."""
    found: dict[str, list[str]] = {}
    until = time.monotonic() + _PATIENCE
    asked = []
    for provider, (_, port) in _SERVERS.items():
        connection = http.client.HTTPConnection(_LOOPBACK, port, timeout=_PATIENCE)
        arguments = (connection, provider, found)
        thread = threading.Thread(target=_ask_server, args=arguments, daemon=True)
        thread.start()
        asked.append(thread)
    for thread in asked:
        thread.join(max(0.0, until - time.monotonic()))
    # A copy: a server that is late must not change the list while it is read.
    return {provider: found.get(provider, []) for provider in _SERVERS}


def _ask_server(
    connection: http.client.HTTPConnection, provider: str, found: dict[str, list[str]]
) -> None:
    """Ask one server. Whatever it answers that is no list of models counts as none."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError, RecursionError):
        try:
            connection.request("GET", "/v1/models")
            answer = connection.getresponse()
            if answer.status == http.client.OK:
                found[provider] = _names(json.loads(answer.read(_LARGEST)))
        finally:
            connection.close()


def _names(listed: Any) -> list[str]:
    entries = listed.get("data") if isinstance(listed, dict) else None
    names = [each.get("id") for each in entries or () if isinstance(each, dict)]
    return [
        name
        for name in names
        if isinstance(name, str) and _MODEL_NAME.fullmatch(name) and _NO_CHAT not in name
    ]


# --- the question -------------------------------------------------------------------------------------


def choose_model(arguments: argparse.Namespace, guards: Guards, flags: Layer) -> Guards:
    """The guards with the model of the person's choice, where none is configured. They are asked once.

    Where nobody can be asked, the small model is used.
    """
    settings = guards.settings
    if settings.is_bare or not can_ask(arguments):
        is_silent = arguments.quiet or getattr(arguments, "json", False)
        if not (is_silent or missing_extra("local")):  # without it, an error says more
            report(f"no model is chosen, so this is the small one ({DEFAULT.title}); {_OTHER}")
        return guards
    model = ask_for_model()
    try:
        write_model(own_file(os.environ), model)
    except ConfigError as error:
        report(f"the choice is not kept: {error}")
    sources = {**flags.sources, ("model",): str(own_file(os.environ))}
    chosen = Layer(flags.name, {**flags.data, "model": model}, sources=sources)
    return msgspec.structs.replace(guards, settings=load_verified(chosen, agent=settings.agent))


_OTHER = "`hookline model use` chooses another."


def ask_for_model() -> str:
    """Show what there is, and ask until there is an answer."""
    choices = find_choices(Path.cwd())
    report("which model should answer? Nothing was sent to any of them yet.")
    _print_list(choices)
    for line in wrap_text(f"Your answer is kept in {own_file(os.environ)}; {_OTHER}", width()):
        _show(f"{line}\n")
    while True:
        try:
            choice = _read_choice(_read("A number, or the name of a model [1]: "), choices)
            if choice.needs_name:
                name = _read(f"The name of the model, as {choice.model[:-1]} writes it: ")
                choice = Choice(check_name(choice.model + name), "")
            return choice.model
        except UsageError as error:
            report(str(error))


def _print_list(choices: Sequence[Choice]) -> None:
    for number, each in enumerate(choices, start=1):
        name = printable(each.model) + "NAME" * each.needs_name
        _show(f"{fit_text(f'{number:>3}  {name:<{_COLUMN}}  {each.about}', width())}\n")


def _read_choice(text: str, choices: Sequence[Choice]) -> Choice:
    if not text:
        return choices[0]
    if not text.isdecimal() or len(text) > _DIGITS:
        return Choice(check_name(text), "")
    if not 1 <= int(text) <= len(choices):
        raise UsageError(f"there is no {text}.", remedy=f"Type a number from 1 to {len(choices)}.")
    return choices[int(text) - 1]


def check_name(text: str) -> str:
    """A name as a person has typed it, with the whole path of a file; an error if no model can have it."""
    provider, _, name = text.partition(":")
    if provider != "script":
        try:
            split_name(text, also=("script",))
        except BuildError as error:
            raise UsageError(error.message, remedy=error.remedy) from None
    is_file = provider == "script" or (provider == "local" and name.endswith(".gguf"))
    return f"{provider}:{os.path.abspath(os.path.expanduser(name))}" if is_file else text


def _read(prompt: str) -> str:
    _show(prompt)
    line = sys.stdin.readline()
    if not line:
        _show("\n")
        raise ConfigError("no model was chosen.", remedy="Name one: hookline model use local:")
    return line.strip()


def _show(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
