"""Notes the model keeps in the run's metadata: tools to read, write and list them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from hookline.agent import hook
from hookline.errors import BuildError, NotJSONError, ToolError
from hookline.hooks import Registration
from hookline.lifecycle import AfterToolHookContext
from hookline.option_checks import check_count, check_names
from hookline.state import AgentState, ErrorInfo, JSONValue, ResultStatus, freeze
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.arguments import closest, did_you_mean
from hookline.wildcards import matches_any

_KEY = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_Value = str | int | float | bool | list[Any] | dict[str, Any] | None
_Key = Annotated[str, "Up to 128 letters, digits and _ . : / -"]


class Metadata:
    """`read_metadata`, `write_metadata` and `list_metadata`: notes that outlive the conversation's window.

    What the model writes is kept in the state's metadata under `namespace`, so it can neither read nor overwrite what
    hooks keep beside it. Patterns open the rest, key by key: `allow` for keys of the state's own metadata that it may
    read and write, `read` for those it may only read; `deny` wins over both and holds for its own notes too.
    """

    name = "metadata"

    def __init__(
        self,
        *,
        namespace: str = "notes",
        allow: Iterable[str] = (),
        read: Iterable[str] = (),
        deny: Iterable[str] = (),
        max_entries: int = 100,
        max_chars: int = 10_000,
        max_total_chars: int = 100_000,
    ) -> None:
        if not (isinstance(namespace, str) and _KEY.fullmatch(namespace)):
            raise BuildError(f"metadata: {namespace!r} cannot be the namespace: it takes a key.")
        self.namespace = namespace
        self._allow = check_names(self.name, "allow", allow, '"customer", "ticket_*"')
        self._read = check_names(self.name, "read", read, '"customer", "ticket_*"')
        self._deny = check_names(self.name, "deny", deny, '"customer", "ticket_*"')
        self._max_entries = check_count(self.name, "max_entries", max_entries)
        self._max_chars = check_count(self.name, "max_chars", max_chars)
        self._max_total_chars = check_count(self.name, "max_total_chars", max_total_chars)

    def entries(self, state: AgentState) -> Mapping[str, JSONValue]:
        """The notes of the model."""
        kept = state.metadata.get(self.namespace)
        return kept if isinstance(kept, dict) else {}

    # --- the tools ----------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        @tool(effect="pure")
        async def read_metadata(key: _Key, context: ToolContext) -> JSONValue:
            """Read one entry of the run's metadata: a note you wrote, or something that was put there for you."""
            return self._get(context.state, key)

        @tool(effect="idempotent")
        async def write_metadata(key: _Key, value: _Value, context: ToolContext) -> str:
            """Keep a value under a key in the run's metadata, where you can read it for as long as the run lasts.

            It replaces what was there. Writing null removes the entry.
            """
            self._set_entry(context.state, key, value)
            return f"removed {key}" if value is None else f"wrote {key}"

        @tool(effect="pure")
        async def list_metadata(
            context: ToolContext, prefix: Annotated[str, "Only keys that begin like this"] = ""
        ) -> list[dict[str, Any]]:
            """List the keys of the run's metadata that you may read, with the size of each value."""
            shown = self._visible(context.state)
            return [
                {"key": key, "chars": _size(value), "writable": self._is_writable(key)}
                for key, value in sorted(shown.items())
                if key.startswith(prefix)
            ]

        return [read_metadata, write_metadata, list_metadata]

    def hooks(self) -> list[Registration]:
        """The hook that puts what was written into the state, after all other hooks."""
        name, of = "metadata-persist", "write_metadata"
        return [hook("after_tool_use", self._persist, name=name, matcher=of, priority=-1000)]

    def _persist(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        if not ctx.execution.is_success:
            return None
        args = ctx.tool_call.args
        try:
            return ctx.with_state(self._set_entry(ctx.state, args["key"], args["value"]))
        except ToolError as error:  # another call of this step used up what was left
            info = ErrorInfo.from_exception(error, "tool")
            failed = msgspec.structs.replace(
                ctx.execution, result=None, error=info, status=ResultStatus.ERROR
            )
            return ctx.with_execution(failed)

    # --- what is where ------------------------------------------------------------------------------

    def _get(self, state: AgentState, key: str) -> JSONValue:
        self._refuse_denied(key)
        shown = self._visible(state)
        if key in shown:
            return shown[key]
        hint = did_you_mean(closest(key, shown)[:1])
        raise ToolError(
            f"there is no metadata under '{key}'.{hint}",
            remedy="list_metadata shows what there is.",
        )

    def _visible(self, state: AgentState) -> dict[str, JSONValue]:
        """Everything the model may read: its own notes, and the other keys that are open to it."""
        beside = {
            key: value
            for key, value in state.metadata.items()
            if key != self.namespace and (self._is_shared(key) or matches_any(key, self._read))
        }
        everything = {**self.entries(state), **beside}
        return {key: value for key, value in everything.items() if not matches_any(key, self._deny)}

    def _set_entry(self, state: AgentState, key: str, value: JSONValue) -> AgentState:
        """The state with one entry written, or an error that the model can act on."""
        self._refuse_denied(key)
        if not _KEY.fullmatch(key):
            raise ToolError(
                f"{key!r} cannot be a key.",
                remedy="Use up to 128 letters, digits and _ . : / -, as in 'plan.budget'.",
            )
        if not self._is_writable(key):
            raise ToolError(
                f"'{key}' can be read and not written.", remedy="Write under another key."
            )
        value = _freeze(key, value)
        if value is not None and (size := _size(value)) > self._max_chars:
            raise ToolError(
                f"the value for '{key}' has {size:,} characters of JSON; {self._max_chars:,} are the most.",
                remedy="Write less, or split it over several keys.",
            )
        if self._is_shared(key):
            return state.without_metadata(key) if value is None else state.with_metadata(key, value)
        return state.with_metadata(self.namespace, self._change_notes(state, key, value))

    def _change_notes(self, state: AgentState, key: str, value: JSONValue) -> dict[str, JSONValue]:
        notes = {**self.entries(state), key: value}
        if value is None:
            del notes[key]
            return notes
        if len(notes) > self._max_entries:
            raise ToolError(
                f"there are {len(notes) - 1} entries already, which is the maximum.",
                remedy="Remove one first, by writing null under its key.",
            )
        total = sum(len(name) + _size(kept) for name, kept in notes.items())
        if total > self._max_total_chars:
            raise ToolError(
                f"with '{key}' there would be {total:,} characters in all; {self._max_total_chars:,} are the most.",
                remedy="Write less, or remove entries by writing null under their keys.",
            )
        return notes

    def _is_shared(self, key: str) -> bool:
        """Whether the key is one of the state's own metadata that the model may write."""
        return key != self.namespace and matches_any(key, self._allow)

    def _is_writable(self, key: str) -> bool:
        return self._is_shared(key) or not matches_any(key, self._read)

    def _refuse_denied(self, key: str) -> None:
        if matches_any(key, self._deny):
            raise ToolError(f"'{key}' cannot be used by the model.", remedy="Use another key.")


def _freeze(key: str, value: object) -> JSONValue:
    try:
        return freeze(value, f"the value for '{key}'")
    except NotJSONError as error:
        raise ToolError(error.message, remedy=error.remedy) from None


def _size(value: JSONValue) -> int:
    return len(msgspec.json.encode(value).decode())
