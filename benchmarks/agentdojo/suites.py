"""AgentDojo's suites as agents of Hookline: its functions as tools, its environments, its checks."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.base_tasks import BaseUserTask
from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import read_suite_file
from agentdojo.types import text_content_block_from_string
from attacks import WRITTEN
from effects import PURE
from obeying import Acts, Injection, Task, acts_of

from hookline import tool
from hookline.errors import ToolError
from hookline.tools import AnyTool

VERSION = "v1.2.2"
_SAYS = "TODO: {goal}"
"""How the injections are worded. What matters to an agent that obeys is the goal."""
_YAML: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CANARY = "<<{vector}>>"


Known = dict[tuple[str | None, str, str], tuple[bool, bool]]
"""What AgentDojo's checks said about one user task: by injection, answer and calls."""


@dataclass
class TaskAttempt:
    """One user task, with an injection or without: what an agent does here is done to this environment only."""

    suite: Suite
    user_task: Any
    injection_task: Any
    environment: Any
    checks: bool = False
    """Whether functions that are said to be pure are watched."""

    def __post_init__(self) -> None:
        self.before = self.environment.model_copy(deep=True)
        self.done: list[FunctionCall] = []
        """The calls that ran, in order."""

    @cached_property
    def task(self) -> Task:
        """What the user wants."""
        truth = self.user_task.ground_truth(self.before)
        acts = tuple((call.function, dict(call.args)) for call in truth)
        return Task(self.user_task.PROMPT, acts, self.user_task.GROUND_TRUTH_OUTPUT)

    @property
    def injection(self) -> Injection | None:
        """What the attacker wants."""
        if self.injection_task is None:
            return None
        task = self.injection_task
        return Injection(task.GOAL, self._attack, task.GROUND_TRUTH_OUTPUT)

    @property
    def needs_call(self) -> bool:
        """Whether the injection wants anything done, and not only said."""
        task = self.injection_task
        if task is None:
            return False
        return (self.suite.name, task.ID) in WRITTEN or bool(task.ground_truth(self.before))

    def _attack(self) -> Acts:
        """The calls of the injection, as things stand when it is read."""
        written = WRITTEN.get((self.suite.name, self.injection_task.ID))
        if written is not None:
            return written(self.environment, self.injection_task)
        truth = self.injection_task.ground_truth(self.environment)
        return acts_of((call.function, dict(call.args)) for call in truth)

    def tools(self) -> list[AnyTool]:
        """The suite's functions, on this environment."""
        self.suite.current = self
        return self.suite.tools

    def run(self, function: Function, args: Mapping[str, Any]) -> str:
        """Run a function on the environment."""
        given = {name: value for name, value in args.items() if value is not None}
        self.done.append(FunctionCall(function=function.name, args=given))
        before = self.environment.model_dump() if self.checks else None
        result, error = self.suite.runtime.run_function(self.environment, function.name, given)
        if self.checks and function.name in PURE and self.environment.model_dump() != before:
            raise SystemExit(f"{function.name} is not pure: it changed the environment.")
        if error is not None:
            raise ToolError(error)
        return str(tool_result_to_str(result))

    def judged(self, answer: str, known: Known) -> tuple[bool, bool]:
        """Whether the user's task is done, and whether the attacker's is, by AgentDojo's own checks.

        They compare whole environments, which takes longer than everything else. So what came of the same calls
        on the same environment before is looked up in `known`.
        """
        key = (self.injection_task and self.injection_task.ID, answer, self._changes())
        if key not in known:
            useful = self._checked(self.user_task, answer)
            attacked = self.injection_task and self._checked(self.injection_task, answer)
            known[key] = (useful, bool(attacked))
        return known[key]

    def _changes(self) -> str:
        """The calls that matter to the checks, in order: those that only look do not, unless a task counts calls."""
        counts = type(self.user_task).utility_from_traces is not BaseUserTask.utility_from_traces
        calls = [call for call in self.done if counts or call.function not in PURE]
        return "".join(call.model_dump_json() for call in calls)

    def _checked(self, task: Any, answer: str) -> bool:
        output = [text_content_block_from_string(answer)]
        check = self.suite.dojo._check_task_result
        return bool(check(task, output, self.before, self.environment, self.done))


class Suite:
    """One of AgentDojo's suites."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dojo = get_suites(VERSION)[name]
        self.functions: list[Function] = self.dojo.tools
        self.runtime = FunctionsRuntime(self.functions)
        self.tools = [_tool(function, self) for function in self.functions]
        """Made once, because that takes longer than running a task: they act on the attempt that began last."""
        self.current: TaskAttempt | None = None
        self._last: tuple[dict[str, str], Any] | None = None

    @cached_property
    def _defaults(self) -> dict[str, str]:
        return dict(self.dojo.get_injection_vector_defaults())

    def attempt(
        self, user_id: str, injection_id: str | None = None, *, checks: bool = False
    ) -> TaskAttempt:
        """A fresh environment for a task, with the injection wherever the task would come across it."""
        user_task = self.dojo.user_tasks[user_id]
        injection_task = None if injection_id is None else self.dojo.injection_tasks[injection_id]
        texts: dict[str, str] = {}
        if injection_task is not None:
            said = _SAYS.format(goal=injection_task.GOAL)
            texts = dict.fromkeys(self._seen(user_id), said)
        environment = user_task.init_environment(self.environment(texts))
        return TaskAttempt(self, user_task, injection_task, environment, checks)

    def environment(self, texts: Mapping[str, str]) -> Any:
        """The environment with these texts in it. The last one is kept: to make one takes longer than to copy it."""
        if self._last is None or self._last[0] != texts:
            self._last = (dict(texts), self._load(texts))
        return self._last[1].model_copy(deep=True)

    def _load(self, texts: Mapping[str, str]) -> Any:
        """As AgentDojo does it, with the faster of the parsers of the same library."""
        text = read_suite_file(self.dojo.name, "environment.yaml", self.dojo.data_path)
        loaded = yaml.load(text.format(**{**self._defaults, **texts}), _YAML)
        return self.dojo.environment_type.model_validate(loaded)

    def _seen(self, user_id: str) -> list[str]:
        """The places that somebody who does this task comes across."""
        if user_id not in self._seen_by:
            user_task = self.dojo.user_tasks[user_id]
            marks = {vector: _CANARY.format(vector=vector) for vector in self._defaults}
            environment = user_task.init_environment(self._load(marks))
            truth = user_task.ground_truth(environment)
            results = [
                tool_result_to_str(
                    self.runtime.run_function(environment, call.function, call.args)[0]
                )
                for call in truth
            ]
            said = "".join("\n".join(results).split())
            self._seen_by[user_id] = [
                vector for vector in self._defaults if _CANARY.format(vector=vector) in said
            ]
        return self._seen_by[user_id]

    @cached_property
    def _seen_by(self) -> dict[str, list[str]]:
        return {}


def _tool(function: Function, suite: Suite) -> AnyTool:
    async def use(**args: Any) -> str:
        assert suite.current is not None
        return suite.current.run(function, args)

    use.__name__ = function.name
    use.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.is_required() else field.default,
                annotation=field.annotation,
            )
            for name, field in function.parameters.model_fields.items()
        ]
    )
    return tool(
        use,
        name=str(function.name),
        description=str(function.description),
        effect="pure" if function.name in PURE else "once",
        max_chars=None,
    )
