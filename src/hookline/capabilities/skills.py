"""Skills: folders of instructions that a model sees by name, and loads when it needs one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from hookline.agent import Note, hook
from hookline.definition import Definition
from hookline.errors import BuildError, ToolError
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import (
    AfterToolHookContext,
    ExecutionHookContext,
    InferenceHookContext,
    PromptHookContext,
    ToolHookContext,
)
from hookline.lifecycle.contexts import own_and_parent_states
from hookline.markdown import Skill, SkillLibrary
from hookline.markdown.document import PageHooks, has_commands
from hookline.markdown.tool_names import means_tool
from hookline.option_checks import check_choice
from hookline.permissions import Rules
from hookline.permissions.names import ANSWER_TOOL, COMPANIONS
from hookline.state import AgentState, ToolCall
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.arguments import closest, did_you_mean

C = TypeVar("C", PromptHookContext, AfterToolHookContext)

TOOL = "load_skill"
_ALWAYS = frozenset({TOOL, ANSWER_TOOL})
"""What can be called whatever a skill says: to load another, and to give the answer of the run."""
_LISTED = 16_000
"""Characters of the list that a model is shown before each step."""
_LONGEST_DESCRIPTION = 1_024
_SLASH = re.compile(r"/(?P<name>[^\s/]+)(?:\s+(?P<arguments>.*))?", re.DOTALL)


class Skills:
    """Gives an agent the skills of some directories, or of a library. Earlier directories go before later ones.

    Before each step the model is shown their names and descriptions. `load_skill` gives it the text of one, and the
    files that come with it. While a skill with `allowed-tools` is active no other tools can be called; with
    `outside="ask"` a person is asked. A skill is active until another is loaded, until it is unloaded, or until the
    run ends. Paths in its rules begin at `root`. `commands` is the `CommandHooks` that runs the hooks of skills, from
    when one is loaded; the agent has to have it too.
    """

    name = "skills"

    def __init__(
        self,
        *sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | SkillLibrary,
        outside: Literal["block", "ask"] = "block",
        root: str | os.PathLike[str] = ".",
        commands: PageHooks | None = None,
    ) -> None:
        check_choice(self.name, "outside", outside, ("block", "ask"))
        self.library = _library(sources)
        self._outside = outside
        self._root = root
        self._commands = commands

    # --- a capability -------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """`load_skill`."""
        return [tool(self.load_skill, effect="pure", max_chars=200_000)]

    def hooks(self) -> Iterator[Registration]:
        """The list before each step, what a loaded skill changes, and what holds while it is active."""
        name = self.name
        yield hook("execution_start", self._begin, name=f"{name}-fresh")
        yield hook("prompt_submit", self._start, name=f"{name}-prompt")
        yield hook("before_inference", self._list, name=f"{name}-list")
        yield hook("after_tool_use", self._activate, name=f"{name}-active", matcher=TOOL)
        yield hook("before_tool_use", self._judge, name=f"{name}-allowed-tools", tier="policy")

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Which skills there are, and what is wrong with the others."""
        yield Note(f"{len(self.library)} skills: {', '.join(self.library.skills) or 'none'}")
        for problem in self.library.problems:
            yield Note(problem.text, is_problem=True, remedy=problem.remedy)
        for skill in self.library:
            if skill.hooks and not self._are_run(skill, definition):
                yield Note(
                    f"{skill.folder}: the hooks of skill '{skill.name}' are not run.",
                    is_problem=True,
                    remedy="Let CommandHooks run them: commands = CommandHooks.discover(project, skills=[...]), then "
                    "Skills(..., commands=commands), and give the agent both.",
                )

    def _are_run(self, skill: Skill, definition: Definition) -> bool:
        commands = self._commands
        if commands is None or commands.name not in definition.capabilities:
            return False
        return has_commands(skill.hooks) and commands.has_read(skill.page_path)

    # --- the tool -----------------------------------------------------------------------------------

    def load_skill(
        self,
        name: str,
        context: ToolContext,
        file: str = "",
        arguments: str = "",
        unload: bool = False,
    ) -> str:
        """Load the instructions of a skill, or read one of the files that come with it.

        Args:
            name: Which skill, by its name in the list of skills.
            file: One of the skill's files, by its path in the skill's folder, instead of the instructions.
            arguments: What the skill should be applied to, if it takes that.
            unload: Stop using the skill: what it allows and forbids no longer counts.
        """
        active = str(_active(context.state, self._key).get("name", ""))
        if unload and _is_same(name, active):  # also one that is gone from the disk since
            return f"Skill '{active}' is no longer active."
        skill = self._find_skill(name)
        if unload:
            return f"Skill '{skill.name}' is not active."
        is_active = active == skill.name
        if not skill.for_models and not (file and is_active):  # then a person has started it
            raise ToolError(
                f"only a person can start the skill '{skill.name}'.",
                remedy="Tell the user about it if it would help.",
            )
        if file:
            return skill.read_file(file)
        return skill.page(arguments)

    def _find_skill(self, name: str) -> Skill:
        skill = self.library.get(name)
        if skill is not None:
            return skill
        known = [each.name for each in self.library if each.for_models]
        hint = did_you_mean(closest(name, known)[:2])
        raise ToolError(
            f"there is no skill '{name}'.{hint}", remedy=f"Skills: {', '.join(known) or 'none'}."
        )

    # --- the hooks ----------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return f"{self.name}.active"

    def _load(self, ctx: C, skill: Skill) -> C:
        """The context with this skill as the active one and, if it has hooks, as one that was loaded.

        What was loaded is kept for the session, and no model can remove it: the hooks of a skill hold from then on.
        """
        active = ctx.with_metadata(self._key, _skill_entry(skill))
        if not has_commands(skill.hooks):
            return active
        key = f"{self.name}.loaded"
        before: Any = ctx.state.get(key)
        names = dict.fromkeys([*(before if isinstance(before, list) else ()), skill.name])
        return active.with_metadata(key, list(names))

    def _begin(self, ctx: ExecutionHookContext) -> AgentState | None:
        """A run begins without an active skill, whatever its state says."""
        if ctx.resumed or ctx.get(self._key) is None:
            return None
        return ctx.state.without_metadata(self._key)

    def _start(self, ctx: PromptHookContext) -> PromptHookContext | None:
        """A person may start a skill: `/name` and what it is for."""
        said = _SLASH.fullmatch(ctx.prompt.strip())
        if said is None or not ctx.has_run or ctx.run.depth > 0:
            return None
        skill = self.library.get(said["name"])
        if skill is None or not skill.for_people:
            return None
        expanded = ctx.with_prompt(skill.page((said["arguments"] or "").strip()))
        return self._load(expanded, skill)

    def _list(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        offered = [skill for skill in self.library if skill.for_models]
        request = ctx.request
        if not offered or not any(spec.name == TOOL for spec in request.tools):
            return None
        parts = (request.system, list_skills(offered))
        return ctx.with_request(request.with_system("\n\n".join(part for part in parts if part)))

    def _activate(self, ctx: AfterToolHookContext) -> AfterToolHookContext | AgentState | None:
        args = ctx.tool_call.args
        if not ctx.execution.is_success:
            return None
        name = str(args.get("name", ""))
        if args.get("unload"):
            active = str(_active(ctx.state, self._key).get("name", ""))
            return ctx.state.without_metadata(self._key) if _is_same(name, active) else None
        skill = self.library.get(name)
        if skill is None or args.get("file"):
            return None
        return self._load(ctx, skill)

    def _judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        """What no active skill allows, of this run or of one above it, does not run."""
        call = ctx.tool_call
        if call.name in _ALWAYS:
            return None
        for state in own_and_parent_states(ctx):
            active = _active(state, self._key)
            allowed = active.get("allowed")
            if allowed is None or self._is_allowed(allowed, call):
                continue
            reason = (
                f"skill '{active.get('name')}' is active and allows only "
                f"{', '.join(allowed) or 'no tools at all'}"
            )
            if self._outside == "ask":
                return HookOutcome.ask(reason)
            return HookOutcome.block(f"{reason}; unload it first if you are done with it")
        return None

    def _is_allowed(self, allowed: list[str], call: ToolCall) -> bool:
        rules = Rules(allowed, root=self._root)
        if rules.judge(call).decision == "allow":
            return True
        return call.name in COMPANIONS and any(means_tool(rule, call.name) for rule in rules.allow)

    def __repr__(self) -> str:
        return f"<Skills {', '.join(self.library.skills)}>"


def _library(sources: tuple[Any, ...]) -> SkillLibrary:
    if not sources:
        raise BuildError(
            "there are no skills to give.", remedy="Name a directory: Skills('.claude/skills')."
        )
    if len(sources) == 1 and isinstance(sources[0], SkillLibrary):
        return sources[0]
    if any(isinstance(source, SkillLibrary) for source in sources):
        raise BuildError(
            "skills come from directories, or from one library.",
            remedy="Make one library of all directories: SkillLibrary(first, second).",
        )
    return SkillLibrary(*sources)


def _is_same(name: str, active: str) -> bool:
    return bool(active) and name.strip().lower() == active.lower()


def _skill_entry(skill: Skill) -> dict[str, Any]:
    """What a run remembers of its active skill: it still holds when the files of the skill have changed since."""
    allowed = None if skill.allowed_tools is None else list(skill.allowed_tools)
    return {"name": skill.name, "allowed": allowed, "digest": skill.digest}


def _active(state: AgentState, key: str) -> Mapping[str, Any]:
    kept = state.get(key)
    return kept if isinstance(kept, dict) else {}


# --- what models read ---------------------------------------------------------------------------------


def list_skills(skills: list[Skill]) -> str:
    """The names of the skills, each with as much of its description as fits."""
    room = max(60, _LISTED // len(skills))
    lines = [f"- {each.name}: {_cut(each.description, room)}" for each in skills]
    return "\n".join(
        [
            "# Skills",
            "",
            "Instructions for particular tasks, some with files. When one fits, load it before you begin:",
            f"{TOOL}(name), and {TOOL}(name, file) for a file that comes with it.",
            "",
            *lines,
        ]
    )


def _cut(text: str, room: int) -> str:
    room = min(room, _LONGEST_DESCRIPTION)
    return text if len(text) <= room else f"{text[: room - 3].rstrip()}..."
