"""The shell script or other program of a hook: its environment and command line, its input and output, and its time.

It also has the variables that hooks set for commands and for later hooks. What a hook reads and may print is in
`dialects/`: `dialects/hookline.py` for our own hooks. `capability.py` installs hooks, and `runner.py` asks one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from hookline.command_hooks.dialect import Dialect, all_dialects, dialect_of
from hookline.command_hooks.handler import (
    MOST_OUTPUT,
    VARIABLE,
    Handler,
    ProgramAnswer,
    ProgramResult,
    RunFacts,
    home_directory,
    not_started,
    session_of,
)
from hookline.containment.processes import AsyncProcess, Standard, StartedProcess, start_program
from hookline.lifecycle import AgentContext
from hookline.secret_tables import CLOUD_VARIABLE

# --- its environment ----------------------------------------------------------------------------------

_KEPT_IN_REPOSITORIES = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM TZ TMPDIR TEMP TMP PWD "  # noqa: SIM905 - a table of names
    "HOSTNAME EDITOR CI NO_COLOR VIRTUAL_ENV "
    "CONDA_PREFIX NVM_DIR PYENV_ROOT GOPATH GOROOT CARGO_HOME RUSTUP_HOME JAVA_HOME NODE_PATH XDG_CONFIG_HOME "
    "XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR SYSTEMROOT COMSPEC PATHEXT "
    # For version managers, certificates and notifications.
    "VOLTA_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR FNM_DIR BUN_INSTALL DENO_DIR PNPM_HOME RBENV_ROOT GEM_HOME "
    "SDKMAN_DIR HOMEBREW_PREFIX UV_CACHE_DIR PIP_CACHE_DIR SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE "
    "CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS WSL_DISTRO_NAME".split()
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_NEVER_SET = re.compile(
    r"(?i)(?:PATH|LD_.*|DYLD_.*|PYTHON.*|NODE_OPTIONS|BASH_ENV|ENV|IFS|PERL5?(?:LIB|OPT)|RUBYOPT|RUBYLIB|SHELL|HOME"
    r"|GIT_.*|PROMPT_COMMAND|PS[0-9])"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\$\{(\w+|/)\}")
_PLAIN = re.compile(r"[\w./@+=:,-]+")
_MOST_LINES = 50
"""How many lines a variable's value may have."""


def environment(
    handler: Handler, facts: RunFacts, kept: Mapping[str, str], search: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a hook: ours, without what could leak or mislead; those of its dialect; its own.

    `search` are the `search_variables`.
    """
    ours = {**_inherited_variables(handler.source.level.is_repository), **search}
    dialect = dialect_of(handler)
    own = {
        name: expand_placeholders(value, handler, facts.project)
        for name, value in handler.env.items()
    }
    if dialect.expands_env:
        own = {
            name: VARIABLE.sub(lambda found: ours.get(found[1] or found[2], ""), value)
            for name, value in own.items()
        }
    skill = dict.fromkeys(dialect.skill_variables, handler.source.root) if handler.skill else {}
    made = {**kept, **own, **dialect.variables(handler, facts), **skill}
    return ours | {k: value for k, value in made.items() if k and "\0" not in k + value}


def _inherited_variables(is_repository: bool) -> dict[str, str]:
    """Our own variables, as far as a hook may see them."""
    others, scrubs = _variables_of(tuple(all_dialects().values()))
    ours = {
        name: value
        for name, value in os.environ.items()
        if name not in others and not name.startswith("OTEL_")
    }
    if is_repository:
        return {name: value for name, value in ours.items() if _may_be_known(name, value)}
    if any(os.environ.get(each, "").lower() in ("1", "true") for each in scrubs):
        kept = (name for name in ours if not CLOUD_VARIABLE.match(name))
        return {name: ours[name] for name in kept if not _is_secret(name, ours[name])}
    return ours


@cache
def _variables_of(dialects: tuple[Dialect, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """The variables by which scripts recognise an agent, and those with which a user keeps credentials from hooks."""
    own = [
        each.identity_variables | each.root_variables | each.data_variables | each.skill_variables
        for each in dialects
    ]
    scrubs = [each.scrub_variables for each in dialects]
    return frozenset[str]().union(*own), frozenset[str]().union(*scrubs)


def _may_be_known(name: str, value: str) -> bool:
    """Whether a repository's hook may see a variable."""
    is_proxy = name.lower() in _PROXIES and "@" not in value
    is_known = name in _KEPT_IN_REPOSITORIES or name.startswith("LC_") or is_proxy
    return is_known and not _is_secret(name, value)


@lru_cache(maxsize=256)
def _is_secret(name: str, value: str) -> bool:
    from hookline.redaction import is_secret_name, token_spans  # takes a while to load

    return bool(is_secret_name(name)) or any(True for _ in token_spans(value))


def expand_placeholders(
    text: str, handler: Handler, project: str, *, for_shell: bool = False
) -> str:
    """A text with the paths in place of placeholders. In a line for a shell only paths without special characters are
    put in: it has the variables in its environment, too."""
    if "${" not in text:
        return text
    known = placeholders(handler, project)

    def put(found: re.Match[str]) -> str:
        value = known.get(found[1], "")
        if not value or (for_shell and not _PLAIN.fullmatch(value)):
            return found[0]
        return value

    return _PLACEHOLDER.sub(put, text)


def placeholders(handler: Handler, project: str) -> dict[str, str]:
    """The placeholders of all dialects: a command may be written for several of them."""
    source, known = handler.source, dict[str, str]()
    for dialect in all_dialects().values():
        known |= dialect.placeholders
        known |= dict.fromkeys(dialect.project_variables, project)
        known |= dict.fromkeys(dialect.root_variables, source.root)
        known |= dict.fromkeys(dialect.data_variables, source.data)
        known |= dict.fromkeys(dialect.skill_variables, source.root if handler.skill else "")
    return known


# --- its command line ---------------------------------------------------------------------------------


def make_directories(handler: Handler) -> None:
    """Make the directories that hooks expect: of a plugin's data, and of the agent in the user's home."""
    folder = dialect_of(handler).home_folder
    wanted = (handler.source.data, os.path.join(home_directory(), folder) if folder else "")
    for each in wanted:
        if each and not os.path.isdir(each):
            with contextlib.suppress(OSError):
                os.makedirs(each, mode=0o700, exist_ok=True)


def command_line(handler: Handler, facts: RunFacts) -> tuple[str, ...]:
    """The program and its arguments."""
    if handler.argv is not None:
        return tuple(expand_placeholders(word, handler, facts.project) for word in handler.argv)
    command = expand_placeholders(handler.command, handler, facts.project, for_shell=True)
    if handler.shell == "powershell":
        return ("pwsh", "-NoProfile", "-NonInteractive", "-Command", command)
    shell = handler.shell or dialect_of(handler).shell
    # Not a machine's `/bin/sh`: `[[ ... ]]` may be an error to it, and errors look like a refusal.
    is_bash = shell == "bash" and _has_bash(os.environ.get("PATH"))
    return ("bash" if is_bash else "/bin/sh", "-c", command)


@cache
def _has_bash(path: str | None) -> bool:
    return shutil.which("bash", path=path) is not None


def directory_of(handler: Handler, facts: RunFacts) -> str:
    """The directory that it starts in."""
    # In the project, wherever the agent works: hooks name and keep files relative to it.
    own = str(Path(facts.project) / handler.cwd) if handler.cwd else facts.project
    for each in (own, facts.project):
        if os.path.isdir(each):
            return each
    home = str(home_directory())
    return home if os.path.isdir(home) else "/"


# --- its execution ------------------------------------------------------------------------------------

_AFTER_EXIT = 0.25
"""Seconds that the pipes may stay open after the program has ended: a helper in the background holds them."""
_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""
_WATCHED = 4096
"""Bytes at the beginning of the output that `watch` gets."""
_KEPT = MOST_OUTPUT + 1
"""Bytes kept of each stream; by the last one it is seen that there were more."""
_ANSWERED = (0, 2)
"""Exit codes of a program that did its work: what it left in the background may continue."""

Watch: TypeAlias = Callable[[bytes], float | None]
"""Called with the output so far, until it gives a number: the seconds that the program has from then on."""


class ProgramSpec(msgspec.Struct, frozen=True):
    """What to run, and with what."""

    argv: tuple[str, ...]
    stdin: bytes
    env: Mapping[str, str]
    cwd: str
    timeout: float
    watch: Watch | None = None


async def run_program(spec: ProgramSpec) -> ProgramResult:
    """Run a program to its end, or to the end of its time. If the task is cancelled, all of it is ended first."""
    return await _Execution(spec).run()


class _Execution:
    """One program, from its start to the last of its processes."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._watch = spec.watch
        self._limit = asyncio.timeout(spec.timeout)
        self._out, self._err = bytearray(), bytearray()

    async def run(self) -> ProgramResult:
        try:
            process = AsyncProcess(
                self._start,
                on_output=self._add_output,
                on_errors=self._add_errors,
                stdin=self._spec.stdin,
            )
        except (OSError, ValueError) as error:
            return not_started(_why(self._spec, error))
        try:
            await self._run_to_end(process)
        finally:
            process.close()
        is_over = self._limit.expired()
        return ProgramResult(
            code=None if is_over else process.returncode,
            stdout=self._out.decode(errors="replace"),
            stderr=self._err.decode(errors="replace"),
            problem="timeout" if is_over else "",
            detail=f"{self._spec.timeout:g} s" if is_over else "",
        )

    def _start(self, standard: Standard) -> StartedProcess:
        spec = self._spec
        # No new session: it would wait milliseconds for its turn on a busy machine.
        return start_program(
            spec.argv, spec.env, spec.cwd, standard, leaves=_ANSWERED, session=False
        )

    def _add_errors(self, data: bytes) -> None:
        self._err += data[: _KEPT - len(self._err)]

    def _add_output(self, data: bytes) -> None:
        self._out += data[: _KEPT - len(self._out)]
        if self._watch is None:
            return
        seconds = self._watch(bytes(self._out[:_WATCHED]))
        if seconds is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)
        if seconds is not None or len(self._out) >= _WATCHED:
            self._watch = None

    async def _run_to_end(self, process: AsyncProcess) -> None:
        """Wait for the end. Helpers of a program that did its work may continue; everything else of it ends."""
        try:
            try:
                async with self._limit:
                    await asyncio.wait([process.exited])
            finally:
                self._watch = None  # there is no time left to change
            if not process.silent.done():
                await asyncio.wait([process.silent], timeout=_AFTER_EXIT)
        except TimeoutError:
            await process.terminate(_GRACE)
        finally:
            if process.returncode in _ANSWERED and not self._limit.expired():
                process.leave()
            else:
                await process.end()


def _why(spec: ProgramSpec, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError) and not Path(spec.cwd).is_dir():
        return f"the directory '{spec.cwd}' is not there"
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"'{spec.argv[0] if spec.argv else ''}' cannot be started: {reason}"


# --- variables that hooks set -------------------------------------------------------------------------


def variables_in(path: Path) -> tuple[dict[str, str], list[str]]:
    """The variables in a file that a hook wrote, and the names that are left out. The file is never sourced.

    Left out are names that decide which programs run, and values that only a shell can evaluate.
    """
    try:
        text = path.read_text(errors="replace")[: 1 << 16]
    except OSError:
        return {}, []
    found: dict[str, str] = {}
    left_out: list[str] = []
    for words in _statements(text):
        for word in _assignments(words):
            name, sign, value = word.partition("=")
            if not sign:
                continue
            if may_be_set(name) and not {"$", "`"} & set(value):
                found[name] = value
            else:
                left_out.append(name)
    return found, left_out


def _statements(text: str) -> Iterator[list[str]]:
    """The words of each statement. Inside of quotes one may have several lines.

    `shell_text` is not used here: it guesses what it does not know, and these values have to be exact.
    """
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        for end in range(at + 1, min(at + _MOST_LINES, len(lines)) + 1):
            try:
                words = shlex.split("\n".join(lines[at:end]), comments=True)
            except ValueError:
                continue
            yield [word.removesuffix(";") for word in words]
            at = end
            break
        else:
            at += 1


def _assignments(words: list[str]) -> list[str]:
    """What a statement sets: `K=V`, `export K=V`, and `declare -x K=V`, as shells print it."""
    if words[:1] == ["export"]:
        return words[1:]
    if words[:1] in (["declare"], ["typeset"]):
        return words[2:]
    return words[:1]


def may_be_set(name: str) -> bool:
    """Whether a hook may set this variable for others."""
    own = tuple(each for dialect in all_dialects().values() for each in dialect.reserved_prefixes)
    is_reserved = _NEVER_SET.fullmatch(name) or name.upper().startswith(own)
    return bool(_NAME.fullmatch(name)) and not is_reserved


class SessionVariables:
    """Variables by session, and by whether a repository's hook set them. They may be secret: no state has them."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[bool, dict[str, str]]] = {}

    def keep(
        self, handler: Handler, ctx: AgentContext, path: Path, answer: ProgramAnswer
    ) -> ProgramAnswer:
        """Keep what a hook sets, and report to the user what is left out."""
        found, left_out = variables_in(path)
        for name, value in (answer.env or {}).items():
            if may_be_set(str(name)):
                found[str(name)] = str(value)
            else:
                left_out.append(str(name))
        if found:
            by_whom = self._kept.setdefault(session_of(ctx.state), {})
            by_whom.setdefault(handler.source.level.is_repository, {}).update(found)
        if not left_out:
            return answer
        words = f"not set for others: {', '.join(dict.fromkeys(left_out))}"
        return msgspec.structs.replace(answer, messages=(*answer.messages, words))

    def of(self, handler: Handler, facts: RunFacts) -> dict[str, str]:
        """The variables for a hook. A repository's are for its own hooks and for commands only."""
        return self._in(facts.session_id, of_repository=handler.source.level.is_repository)

    async def around_command(self, ctx: AgentContext, call_next: Any) -> Any:
        """Run a command of the agent with these variables."""
        variables = self._in(session_of(ctx.state), of_repository=True)
        if not variables:
            return await call_next()
        from hookline.containment.sandbox.environment import extra_variables

        with extra_variables(variables):
            return await call_next()

    def forget(self, session: str) -> None:
        """A session is over."""
        self._kept.pop(session, None)

    def _in(self, session: str, *, of_repository: bool) -> dict[str, str]:
        by_whom = self._kept.get(session, {})
        theirs = by_whom.get(True, {}) if of_repository else {}
        return {**theirs, **by_whom.get(False, {})}
