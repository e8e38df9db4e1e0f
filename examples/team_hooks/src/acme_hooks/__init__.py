"""What agents at Acme may do. `[capabilities.acme_hooks]` in hookline.toml installs it."""

from collections.abc import Iterator

from hookline import AfterToolHookContext, HookOutcome, ToolHookContext, hook
from hookline.hooks import Registration
from hookline.permissions import Rules

CHANGES = "/^(write|edit)$/"  # the tools of Files that change something


class AcmeHooks:
    """Changes of some directories need a person, and every change is reported.

    The parameters are the options of the configuration: `[capabilities.acme_hooks] directories = ["db/migrations"]`.
    Annotate them: a value of another type is then an error with file and line.
    """

    def __init__(self, directories: list[str] | None = None, report: bool = True) -> None:
        # A rule knows what a path means: `src/../migrations/1.sql` is covered too. Comparing text would miss it.
        paths = [f"{each}/**" for each in directories or ["migrations"]]
        self._rules = Rules(ask=[f"{tool}({path})" for tool in ("write", "edit") for path in paths])
        self._report = report

    def hooks(self) -> Iterator[Registration]:
        # A policy: no other hook can change the call after it, or overrule it.
        yield hook("before_tool_use", self.ask_first, matcher=CHANGES, tier="policy")
        if self._report:
            # An observer: it sees what happened, and cannot break the run by failing.
            yield hook("after_tool_use", self.report_change, matcher=CHANGES, tier="observer")

    def ask_first(self, ctx: ToolHookContext) -> HookOutcome | None:
        ruling = self._rules.judge(ctx.tool_call)
        return HookOutcome.ask(f"Acme: {ruling.reason}") if ruling.decision == "ask" else None

    def report_change(self, ctx: AfterToolHookContext) -> None:
        print(f"acme: {ctx.tool_call.name} {ctx.tool_call.args['path']}: {ctx.execution.status}")
