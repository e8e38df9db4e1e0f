"""A typed result instead of text: a tool that takes the output, and hooks that let the run end only with one."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

import msgspec
from pydantic import BaseModel, TypeAdapter
from pydantic_core import ValidationError

from hookline.agent import RunResult, hook
from hookline.capabilities.notes import read_note
from hookline.errors import BuildError, HooklineError, NotJSONError, UsageError
from hookline.extras import install_command
from hookline.hooks import Registration
from hookline.lifecycle import (
    AfterStepHookContext,
    AfterToolHookContext,
    InferenceHookContext,
    OutputHookContext,
    StopHookContext,
)
from hookline.option_checks import check_count
from hookline.state import (
    AgentState,
    FrozenDict,
    JSONValue,
    Step,
    StopReason,
    ToolSpec,
    freeze,
    freeze_dict,
    thaw,
)
from hookline.tools import AnyTool, Effect, Tool
from hookline.tools.arguments import GivenArguments, complaints, refusal
from hookline.tools.pydantic_schema import problems_of
from hookline.tools.schema import inline_definitions

T = TypeVar("T")
KEY = "structured_output"
"""Where the output is kept in the state's metadata."""
TOOL = "structured_output"
_TELL = (
    "Give your final answer by calling structured_output, with arguments that fit its schema: "
    "the run ends with that call."
)


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept in the state."""

    run_id: str = ""
    """Whose output it is: a later run of the conversation gives its own."""
    failures: int = 0
    is_given: bool = False
    step: int = 0
    """How many steps there were when it was given, with that one: if the run continues, it is given again."""
    value: Any = None
    problem: str = ""
    """What was wrong the last time."""


class StructuredOutput(Generic[T]):
    """A run whose `result.output` is a value of this type. The model gives it by calling `structured_output`.

    `output` is a pydantic model, a dataclass, a TypedDict, any type that pydantic can read from JSON, or a JSON schema
    as a dict. The run ends as soon as the output is given, and not before: an answer in text is sent back. After
    `attempts` failures it ends stopped, with the reason `output_invalid`, and the output is None.

    `parse_text` also takes fitting JSON out of an answer in text. `force` requires the tool once the model has answered
    in text (not all providers can).
    """

    name = "structured-output"

    @overload
    def __init__(
        self,
        output: type[T],
        *,
        attempts: int = 3,
        parse_text: bool = False,
        force: bool = False,
        description: str = "",
    ) -> None: ...
    @overload
    def __init__(
        self: StructuredOutput[Any],
        output: Mapping[str, Any] | object,
        *,
        attempts: int = 3,
        parse_text: bool = False,
        force: bool = False,
        description: str = "",
    ) -> None: ...
    def __init__(
        self,
        output: Any,
        *,
        attempts: int = 3,
        parse_text: bool = False,
        force: bool = False,
        description: str = "",
    ) -> None:
        check_count(self.name, "attempts", attempts)
        self._shape = SchemaShape(output) if isinstance(output, Mapping) else TypeShape(output)
        self._attempts = attempts
        self._parse_text = parse_text
        self._force = force
        self._description = description

    def value(self, run: RunResult | AgentState) -> T | None:
        """The output of a run, from its result or its state, also one that was saved; None if it gave none."""
        state = run.state if isinstance(run, RunResult) else run
        kept = _read_entry(state)
        if not kept.is_given:
            return None
        try:
            value: T = self._shape.read(kept.value)
        except UnfitError as unfit:
            raise UsageError(
                f"the recorded output does not fit this type any more: {unfit}.",
                remedy="Read it with the type that it was made with.",
            ) from None
        return value

    # --- the tool -----------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """The tool whose arguments are the output."""

        async def take(value: object) -> str:  # noqa: ARG001 - the hook after the tool keeps it
            return "Taken."

        description = f"{self._description}\n\n{_TELL}".strip()
        return [
            Tool(
                function=take,
                spec=ToolSpec(TOOL, description, self._shape.parameters),
                arguments=GivenArguments(TOOL, self._check),
                origin="the structured output",
                effect=Effect.IDEMPOTENT,
                max_chars=None,
            )
        ]

    def _check(self, given: FrozenDict) -> dict[str, Any]:
        """What the tool gets: the output, if the arguments are one."""
        if self._shape.is_wrapped and set(given) != {WRAPPED}:
            raise refusal(TOOL, [f"it takes one argument, '{WRAPPED}'"])
        try:
            value = self._shape.read(given[WRAPPED] if self._shape.is_wrapped else given)
        except UnfitError as unfit:
            raise refusal(TOOL, unfit.complaints) from None
        return {"value": value}

    # --- the hooks ----------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """Keep the output, end the run with it and only then, and return it."""
        name = self.name
        yield hook(
            "after_tool_use", self._persist, name=f"{name}-persist", matcher=TOOL, priority=-1000
        )
        yield hook("should_continue", self._require_output, name=name)
        yield hook("output", _HandOver(self), name=name)
        if self._parse_text:  # before other hooks judge the step
            yield hook("after_step", self._find, name=f"{name}-found", priority=1000)
        if self._force:
            yield hook("before_inference", self._require_tool, name=f"{name}-demand")

    def _find(self, ctx: AfterStepHookContext) -> AfterStepHookContext | None:
        if not ctx.step.is_final_response:
            return None
        for found in json_in(ctx.step.text):
            with contextlib.suppress(UnfitError):
                value = self._check_output(found)
                return ctx.with_metadata(
                    KEY, self._entry_with_output(ctx.state, value, len(ctx.state.steps))
                )
        return None

    def _persist(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        if not ctx.execution.is_success:
            return None
        args: JSONValue = ctx.tool_call.args
        value = args[WRAPPED] if self._shape.is_wrapped else args
        return ctx.with_metadata(
            KEY, self._entry_with_output(ctx.state, value, len(ctx.state.steps) + 1)
        )

    @staticmethod
    def _entry_with_output(state: AgentState, value: JSONValue, step: int) -> _Kept:
        return msgspec.structs.replace(
            _read_entry(state), is_given=True, value=value, step=step, problem=""
        )

    def _require_output(self, ctx: StopHookContext) -> StopHookContext | None:
        step = ctx.step
        calls = [result for result in step.results if result.name == TOOL]
        if any(result.is_success for result in calls):
            return ctx.allow_stop("the output was given")
        kept = _read_entry(ctx.state)
        if kept.is_given and kept.step == len(ctx.state.steps):
            return ctx.allow_stop("the output was found in the text")
        if step.is_final_response:
            return self._after_text(ctx, step)
        return self._count_failure(ctx, str(calls[-1].text)) if calls else None

    def _after_text(self, ctx: StopHookContext, step: Step) -> StopHookContext:
        """The model answered in text, and there is no output in it: it is asked for it again."""
        problem = ""
        for found in json_in(step.text) if self._parse_text else ():
            try:
                self._check_output(found)
            except UnfitError as unfit:
                problem = str(unfit)
                break
        why = f"The JSON in your answer does not fit: {problem}. " if problem else ""
        ctx = self._count_failure(ctx, problem or "the model answered in text")
        is_over = any(each.stop_reason is StopReason.OUTPUT_INVALID for each in ctx.evaluations)
        return ctx if is_over else ctx.request_continue(f"{why}{_TELL}")

    def _check_output(self, found: Any) -> JSONValue:
        """JSON that is the output, with or without the object that the tool would have around it."""
        try:
            value = freeze(found, "the output")
        except NotJSONError as error:
            raise UnfitError([error.message]) from None
        try:
            self._shape.read(value)
        except UnfitError:
            if not (self._shape.is_wrapped and isinstance(value, dict) and set(value) == {WRAPPED}):
                raise
            value = value[WRAPPED]
            self._shape.read(value)
        return value

    def _count_failure(self, ctx: StopHookContext, problem: str) -> StopHookContext:
        """Count a failed attempt; the last one ends the run."""
        kept = _read_entry(ctx.state)
        kept = msgspec.structs.replace(
            kept, failures=kept.failures + 1, problem=problem, is_given=False, value=None
        )
        ctx = ctx.with_metadata(KEY, kept)
        if kept.failures < self._attempts:
            return ctx
        tried = "1 attempt" if kept.failures == 1 else f"{kept.failures} attempts"
        return ctx.forbid(f"no output after {tried}: {problem}", StopReason.OUTPUT_INVALID)

    def _require_tool(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        """After an answer in text the model must call the tool."""
        last = ctx.state.last_step if ctx.state.step_count else None
        if last is None or not last.is_final_response:
            return None
        return ctx.with_request(ctx.request.with_tool_choice(TOOL))


class _HandOver:
    """The output hook: what the caller gets is the value, or None; never text where a value was asked for."""

    def __init__(self, capability: StructuredOutput[Any]) -> None:
        self._capability = capability

    def __call__(self, ctx: OutputHookContext) -> OutputHookContext:
        return ctx.with_output(self._capability.value(ctx.state))

    def restore_output(self, state: AgentState) -> Any:
        """The output of a run that ended in another process."""
        return self._capability.value(state)


def _read_entry(state: AgentState) -> _Kept:
    """What is kept of this run; what an earlier one left does not count."""
    found = read_note(state, KEY, _Kept)
    return found if found.run_id == state.run_id else _Kept(run_id=state.run_id)


# --- the shape of an output --------------------------------------------------------------------


WRAPPED = "output"
"""The one argument of the tool when the output itself is no JSON object."""


class UnfitError(Exception):
    """JSON that does not fit the shape; `complaints` say why, for the model."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("; ".join(complaints))
        self.complaints = complaints


class TypeShape:
    """A pydantic model, a dataclass, a TypedDict, or anything else that pydantic can read from JSON.

    `parameters` is the schema of the tool's arguments. `is_wrapped` says that the output is one of them, because it is
    not a JSON object itself.
    """

    def __init__(self, kind: Any) -> None:
        try:
            if inspect.isroutine(kind):
                raise TypeError("a function is not a type")
            if kind in (None, type(None)):
                raise TypeError("None is not a type of output")
            if kind is BaseModel:
                raise TypeError("it has no fields of its own")
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            generated = self._adapter.json_schema()
        except Exception as error:  # pydantic, and the author's own types, raise what they like
            raise BuildError(
                f"structured output: {kind!r} has no JSON schema ({str(error).splitlines()[0]}).",
                remedy="Give a pydantic model, a dataclass, a TypedDict, a type such as list[int], or a JSON schema.",
            ) from error
        self.parameters, self.is_wrapped = _as_parameters(
            inline_definitions({"$defs": {}, **generated})
        )

    def read(self, value: JSONValue) -> Any:
        """The typed value of JSON, or `UnfitError`."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except ValidationError as error:
            problems = problems_of(error, (WRAPPED,) if self.is_wrapped else ())
            given: Any = {WRAPPED: thaw(value)} if self.is_wrapped else thaw(value)
            names = list(self.parameters["properties"])
            raise UnfitError(complaints(problems, given, names)) from None
        except Exception as error:  # a validator the author wrote has crashed
            reason = f"it could not be checked ({type(error).__name__}: {error})"
            raise UnfitError([reason]) from error


class SchemaShape:
    """A JSON schema. The output is the JSON itself: dicts and lists."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            from hookline.tools.json_schema import schema_problems
        except ImportError as error:
            raise BuildError(
                "structured output from a JSON schema needs the package jsonschema.",
                remedy=f"Give a pydantic model instead, or run: {install_command('mcp')}",
            ) from error
        self._problems = schema_problems
        try:
            self._schema = freeze_dict(dict(schema), "a JSON schema")
            self._problems(self._schema, {})
        except HooklineError as error:
            raise BuildError(
                f"structured output: {error.message}", remedy="Give a JSON schema."
            ) from None
        self.parameters, self.is_wrapped = _as_parameters(self._schema)

    def read(self, value: JSONValue) -> Any:
        found = self._problems(self._schema, value)
        if found:
            wrapped = [f"'{WRAPPED}': {each}" for each in found]
            raise UnfitError(wrapped if self.is_wrapped else found)
        return thaw(value)


def _as_parameters(schema: Mapping[str, Any]) -> tuple[FrozenDict, bool]:
    """The schema of a tool's arguments, which must be an object, and whether it took an object around it to be so."""
    body = dict(schema)
    definitions = body.pop("$defs", None)
    name = str(body.get("$ref", "")).removeprefix("#/$defs/")
    if definitions and name in definitions:  # a type that holds itself
        body = {**definitions[name], **{key: body[key] for key in body if key != "$ref"}}
    is_wrapped = body.get("type") != "object"
    if is_wrapped:
        body = {"type": "object", "properties": {WRAPPED: body}, "required": [WRAPPED]}
    body = {"properties": {}, **{key: body[key] for key in body if key != "title"}}
    if definitions:
        body["$defs"] = definitions
    return freeze_dict(body, "the schema of the output"), is_wrapped


# --- JSON in a text ----------------------------------------------------------------------------


_FENCED = re.compile(r"```(?:[\w-]*)[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[\[{]")
_MOST_TRIED = 50
"""Places in a text where JSON might begin that are looked at."""


def json_in(text: str) -> Iterator[Any]:
    """What could be meant as the output, the likeliest first: the whole text, fenced blocks from the last, the rest."""
    for part in (text, *reversed(_FENCED.findall(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder, at = json.JSONDecoder(), 0
    for _ in range(_MOST_TRIED):
        opening = _OPENING.search(text, at)
        if opening is None:
            return
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            at = opening.start() + 1
        else:
            yield value
