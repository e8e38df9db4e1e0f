"""A list of tasks that the model writes with a tool, sees before each turn, and is reminded of."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec

from hookline.agent import hook
from hookline.capabilities.notes import read_note
from hookline.errors import ToolError
from hookline.hooks import Registration
from hookline.lifecycle import AfterToolHookContext, InferenceHookContext, StopHookContext
from hookline.option_checks import check_count
from hookline.state import AgentState, Log, StopReason, UserMessage
from hookline.tools import AnyTool, tool

KEY = "tasks"
"""Where the list is kept in the state's metadata."""
_MOST_CHARS = 500
_MOST_TASKS = 100


class TaskStatus(enum.StrEnum):
    """How far a task is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task of the list."""

    content: str
    status: TaskStatus = TaskStatus.PENDING
    id: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.status in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)


class _Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept in the state."""

    items: tuple[Task, ...] = ()
    touched: int = 0
    """How many steps there were in all when the list was last written."""
    objections: int = 0
    run_id: str = ""
    """The run in which those objections were made."""


_MARKS = {
    TaskStatus.PENDING: "[ ]",
    TaskStatus.IN_PROGRESS: "[>]",
    TaskStatus.COMPLETED: "[x]",
    TaskStatus.CANCELLED: "[-]",
}

_Status = Literal["pending", "in_progress", "completed", "cancelled"]


class TaskPlanning:
    """`todo_write`, and the list it writes: shown to the model before every turn, kept in the state.

    `remind_after`: after how many steps without a change the model is reminded of open tasks; None is never.
    `one_at_a_time` refuses a list with two tasks in progress. `insist`: how often a run that wants to end with open
    tasks is sent back to work; if tasks are open even then, it ends stopped, with the reason `tasks_open`.
    """

    name = "task-planning"

    def __init__(
        self,
        *,
        render: bool = True,
        remind_after: int | None = 5,
        one_at_a_time: bool = True,
        insist: int = 0,
        max_tasks: int = _MOST_TASKS,
    ) -> None:
        self._render = render
        self._remind_after = remind_after
        if remind_after is not None:
            check_count(self.name, "remind_after", remind_after)
        self._one_at_a_time = one_at_a_time
        self._insist = check_count(self.name, "insist", insist, 0)
        self._max_tasks = check_count(self.name, "max_tasks", max_tasks)

    @staticmethod
    def tasks(state: AgentState) -> tuple[Task, ...]:
        """The list as it is in this state."""
        return read_note(state, KEY, _Plan).items

    # --- the tool -----------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        from pydantic import BaseModel, ConfigDict, Field  # slow to import: when the tool is made

        class Todo(BaseModel):
            """One task."""

            model_config = ConfigDict(extra="forbid")
            content: str = Field(description="What is to be done, in one line.")
            status: _Status = Field(default="pending")
            id: str = Field(
                default="", description="A short name for it; left out, it is numbered."
            )

        @tool(effect="idempotent")
        async def todo_write(
            todos: Annotated[list[Todo], "The whole list, in order; it replaces the one before."],
        ) -> str:
            """Write your list of tasks. Use it for work of several steps.

            Always give the whole list: tasks that are not in it are gone. Mark a task in_progress before you begin
            it, one at a time, and completed as soon as it is done; cancelled if it turns out not to be needed.
            """
            return _answer(self._check_tasks([each.model_dump() for each in todos]))

        return [todo_write]

    def _check_tasks(self, given: Sequence[Any]) -> tuple[Task, ...]:
        """The list, or an error that the model can act on."""
        items = tuple(_task(number, each) for number, each in enumerate(given, start=1))
        if len(items) > self._max_tasks:
            raise ToolError(
                f"{len(items)} tasks are too many; {self._max_tasks} are the most.",
                remedy="Put several small ones into one.",
            )
        for what, names in (
            ("id", [item.id for item in items]),
            ("content", [item.content.casefold() for item in items]),
        ):
            for position, name in enumerate(names):
                if name in names[:position]:
                    first = names.index(name) + 1
                    raise ToolError(
                        f"tasks {first} and {position + 1} have the same {what}: '{name}'.",
                        remedy=f"Give each task its own {what}, or leave one out.",
                    )
        begun = [item.id for item in items if item.status is TaskStatus.IN_PROGRESS]
        if self._one_at_a_time and len(begun) > 1:
            raise ToolError(
                f"{len(begun)} tasks are in_progress: {', '.join(begun)}.",
                remedy="Work on one at a time: mark the others pending.",
            )
        return items

    # --- the hooks ----------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """Keep the list, show it, and object to an end with open tasks."""
        keep = "task-planning-persist"
        yield hook("after_tool_use", self._persist, name=keep, matcher="todo_write", priority=-1000)
        if self._render or self._remind_after is not None:
            yield hook("before_inference", self._show, name="task-planning-show", priority=-500)
        if self._insist:
            yield hook("stop", self._object, name="task-planning-insist")

    def _persist(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        if not ctx.execution.is_success:
            return None
        items = self._check_tasks(ctx.tool_call.args["todos"])
        plan = msgspec.structs.replace(
            read_note(ctx.state, KEY, _Plan), items=items, touched=len(ctx.state.steps) + 1
        )
        return ctx.with_metadata(KEY, plan)

    def _show(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        """Show the list at the end of the request only: in the conversation there would be one for every step."""
        plan = read_note(ctx.state, KEY, _Plan)
        waiting = [item for item in plan.items if item.is_open]
        if not waiting:
            return None
        since = len(ctx.state.steps) - plan.touched
        is_late = self._remind_after is not None and since >= self._remind_after
        if not (self._render or is_late):
            return None
        note = f"Your tasks:\n{render_tasks(plan.items)}"
        if is_late:
            note += (
                f"\nThe list has not changed for {since} steps, and {_count_tasks(waiting)} open. Bring it up to date "
                "with todo_write, or go on with the next task."
            )
        shown = ctx.request.messages
        messages = shown if isinstance(shown, Log) else Log(shown)
        noted = messages.append(UserMessage(note, self.name))
        return ctx.with_request(ctx.request.with_messages(noted))

    def _object(self, ctx: StopHookContext) -> StopHookContext | None:
        """Object to an end with open tasks, `insist` times at most."""
        plan = read_note(ctx.state, KEY, _Plan)
        waiting = [item for item in plan.items if item.is_open]
        if ctx.continuation.is_forbidden or not waiting:
            return None
        made = plan.objections if plan.run_id == ctx.state.run_id else 0
        if made >= self._insist:
            times = f"{made} objection{'s' * (made != 1)}"
            why = f"{_count_tasks(waiting)} still open after {times}: {_name_tasks(waiting)}"
            return ctx.forbid(why, StopReason.TASKS_OPEN)
        counted = msgspec.structs.replace(plan, objections=made + 1, run_id=ctx.state.run_id)
        why = (
            f"You are not done: {_count_tasks(waiting)} open ({_name_tasks(waiting)}). "
            "Do what is left, or mark with todo_write what is completed or no longer needed."
        )
        ctx = ctx.with_metadata(KEY, counted)
        if not ctx.step.is_final_response:  # otherwise the model gets the reason anyway
            ctx = ctx.with_state(ctx.state.with_user_message(why, by=self.name))
        return ctx.request_continue(why)


def render_tasks(items: Sequence[Task]) -> str:
    """A list of tasks as text."""
    return "\n".join(f"{_MARKS[item.status]} {item.id}: {item.content}" for item in items)


def _task(number: int, given: Any) -> Task:
    content = " ".join(str(given["content"]).split())
    if not content:
        raise ToolError(f"task {number} has no content.", remedy="Say what is to be done.")
    if len(content) > _MOST_CHARS:
        raise ToolError(
            f"the content of task {number} has {len(content):,} characters; at most {_MOST_CHARS} are allowed.",
            remedy="Say it in one line.",
        )
    return Task(content, TaskStatus(given["status"]), str(given["id"]).strip() or str(number))


def _answer(items: Sequence[Task]) -> str:
    if not items:
        return "The list is empty."
    done = sum(not item.is_open for item in items)
    return f"{done} of {len(items)} done.\n{render_tasks(items)}"


def _count_tasks(waiting: Sequence[Task]) -> str:
    return "1 task is" if len(waiting) == 1 else f"{len(waiting)} tasks are"


def _name_tasks(waiting: Sequence[Task], most: int = 5) -> str:
    named = "; ".join(item.content for item in waiting[:most])
    return f"{named}; and {len(waiting) - most} more" if len(waiting) > most else named
