"""The tools of an agent, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hookline.errors import ToolDefinitionError, UnknownToolError
from hookline.state import ToolSpec
from hookline.tools.problems import closest
from hookline.tools.tool import AnyTool, as_tool

_FEW = 12


class Toolbox:
    """An immutable set of tools with distinct names, in the order they were given."""

    __slots__ = ("_by_name", "get", "specs")

    def __init__(self, tools: Iterable[Callable[..., Any]] = ()) -> None:
        by_name: dict[str, AnyTool] = {}
        for made in map(as_tool, tools):
            other = by_name.setdefault(made.name, made)
            if other is not made:
                raise ToolDefinitionError(
                    f"two tools are called '{made.name}': {other.origin} and {made.origin}.",
                    remedy="Give one of them another name, as in @tool(name='...').",
                )
        self._by_name = by_name
        self.get: Callable[[str], AnyTool | None] = by_name.get
        """The tool of that name, if there is one."""
        self.specs: tuple[ToolSpec, ...] = tuple([made.spec for made in by_name.values()])
        """The tools as a model is told about them."""

    def unknown(self, name: str) -> UnknownToolError:
        """The error for a call to a tool that is not here; it names what was probably meant."""
        if not self._by_name:
            return UnknownToolError(
                f"there is no tool '{name}': you have no tools.", remedy="Answer without one."
            )
        likely = closest(name, self._by_name)
        hint = f" Did you mean {' or '.join(repr(each) for each in likely)}?" if likely else ""
        remedy = (
            f"Your tools are: {', '.join(self._by_name)}."
            if len(self) <= _FEW
            else "Use one you were given."
        )
        return UnknownToolError(f"there is no tool '{name}'.{hint}", remedy=remedy)

    def with_tools(self, *more: Callable[..., Any]) -> Toolbox:
        """This box with more tools."""
        return Toolbox((*self, *more))

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._by_name)})"
