"""Runs of every kind in one journal, for the pages and pictures of runs: each has what a reader must find there."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline import AgentBuilder, HookOutcome, SQLiteJournal, ToolContext, tool
from hookline.errors import RateLimitError
from hookline.flow import ErrorPolicy
from hookline.journal import ApprovalAsked, Record
from hookline.state import InferenceResponse, Usage
from hookline.testing import FakeClock, ScriptedDriver, call, calls, say

HOSTILE = (
    "</pre><script>document.title = 'stolen'</script><img src=x onerror=\"document.title = 'stolen'\">"
    "<style>*{display:none}</style><a href='javascript:alert(1)'>here</a> &lt;b&gt; ]]> \x00\x1b[31m\u202e "
    "<svg onload=alert(1)><iframe src='//example.test'></iframe><base href='//example.test'><meta http-equiv=refresh>"
)
TOKEN = "ghp_" + "A1b2C3d4" * 4 + "E5f6"
LONG = "\n".join(f"line {number}: {'x' * 40}" for number in range(1, 2_001))


@tool(effect="pure")
def read(path: str) -> str:
    """Read a file."""
    return {"hostile": HOSTILE, "long": LONG, "secret": f"token {TOKEN}"}.get(
        path, f"text of {path}"
    )


@tool
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool
def crash() -> str:
    """Fail."""
    raise OSError("the disk is gone")


class CostlyDriver(ScriptedDriver):
    """A script whose turns have a price."""

    async def infer(self, request: Any, turn: Any) -> InferenceResponse:
        """The next turn, with what it used."""
        answer = await super().infer(request, turn)
        used = Usage(input_tokens=900, output_tokens=85, requests=1, cost=0.0042)
        return msgspec.structs.replace(answer, usage=used, model="scripted:small")


class ShownRuns:
    """A journal with runs that have all that a page can show."""

    def __init__(self, journal: SQLiteJournal) -> None:
        self.journal = journal
        self.clock = FakeClock()

    def make_all(self) -> None:
        """Make one of each, but for the long one."""
        self.blocked()
        self.parallel()
        self.hostile()
        self.failing_hook()
        self.paused()
        self.answered(True, "agreed")
        self.answered(False, "refused-by-person")
        self.failed()
        self.family()
        self.refused()

    def records(self, run_id: str) -> list[Record]:
        """The records of a run."""
        return self.journal.read_sync(run_id)

    def builder(self, *turns: Any) -> AgentBuilder:
        """An agent with these turns, the tools of this module and a clock that moves."""

        async def think(ctx: Any, call_next: Any) -> Any:
            self.clock.advance(1.3)
            return await call_next(ctx)

        async def work(ctx: Any, call_next: Any) -> Any:
            self.clock.advance(0.7)
            return await call_next(ctx)

        return (
            AgentBuilder()
            .with_id("shown")
            .with_driver(CostlyDriver(turns))
            .with_tools(read, delete, crash)
            .with_clock(self.clock)
            .with_journal(self.journal)
            .around_inference(think)
            .around_tool_use(work)
            .on_before_tool_use(no_notes, matcher="delete", tier="policy", name="no-notes")
            .on_after_tool_use(lambda _ctx: None, tier="observer", name="audit")
        )

    def blocked(self) -> str:
        """Two calls side by side, of which a policy blocks one."""
        both = calls(call("delete", path="old.txt"), call("delete", path="notes.txt"))
        agent = self.builder(both, say("I deleted old.txt."))
        return self.run(agent, "Clean up.", "blocked")

    def parallel(self) -> str:
        """Five calls at once, one long result and a crash among them."""
        paths = ("a.txt", "long", "b.txt")
        many = calls(
            *(call("read", path=path) for path in paths), call("crash"), call("read", path="c")
        )
        builder = self.builder(many, say("Read."))
        builder.with_error_policy(ErrorPolicy.ignore_tool_errors())
        return self.run(builder, "Read all of it.", "parallel")

    def hostile(self) -> str:
        """Markup in a prompt, in arguments, results, reasons, names of hooks and answers; and a secret."""
        both = calls(
            call("read", path="hostile"), call("read", path="secret"), call("delete", path=HOSTILE)
        )
        builder = self.builder(both, say(HOSTILE)).on_before_tool_use(
            lambda _ctx: HookOutcome.block(HOSTILE),
            matcher="delete",
            tier="policy",
            name="<b>bold</b>",
        )
        return self.run(builder, HOSTILE, "hostile")

    def failing_hook(self) -> str:
        """A hook that crashes at a point where that blocks, one in shadow, and one that changes arguments."""

        def broken(_ctx: Any) -> None:
            raise KeyError("colour")

        def upper(ctx: Any) -> Any:
            return ctx.with_args(path=ctx.tool_call.args["path"].upper())

        turns = (
            call("read", path="a.txt"),
            call("delete", path="b.txt"),
            say("I could not delete it."),
        )
        builder = (
            self.builder(*turns)
            .on_before_tool_use(upper, matcher="read", name="upper")
            .on_before_tool_use(broken, matcher="delete", tier="policy", name="broken")
            .on_before_tool_use(
                lambda _ctx: HookOutcome.block("it would be blocked"),
                matcher="read",
                tier="policy",
                name="trial",
                shadow=True,
            )
        )
        return self.run(builder, "Read and delete.", "failing-hook")

    def paused(self, run_id: str = "paused") -> str:
        """A call that waits for a person, next to one that has run."""
        return self.run(self.asking(), "Delete it, if I agree.", run_id)

    def asking(self, *later: Any) -> AgentBuilder:
        """An agent that asks before it deletes."""
        both = calls(call("read", path="a.txt"), call("delete", path="b.txt"))
        return self.builder(*(later or (both,))).on_before_tool_use(
            lambda _ctx: HookOutcome.ask("it deletes a file"),
            matcher="delete",
            tier="policy",
            name="careful",
        )

    def answered(self, answer: bool, run_id: str) -> str:
        """A run that paused for an hour, and continued with an answer."""
        self.paused(run_id)
        self.clock.advance(3600)
        agent = self.asking(say("Deleted.") if answer else say("Not deleted.")).build()
        asked = next(
            each for each in self.journal.read_sync(run_id) if isinstance(each, ApprovalAsked)
        )
        assert asked.approval is not None
        agent.resume_sync(run_id, {asked.approval.id: answer})
        return run_id

    def failed(self) -> str:
        """A run that retries, and fails."""

        def fail(_ctx: Any) -> Any:
            raise RateLimitError("too many requests")

        builder = self.builder(call("read", path="a.txt"), fail, fail, fail)
        builder.with_error_policy(ErrorPolicy(max_retries=2, first_delay=0))
        return self.run(builder, "Read.", "failed")

    def family(self) -> str:
        """A run with two child runs, of which one has a blocked call."""
        child = (
            self.builder(call("delete", path="notes.txt"), say("It is protected."))
            .with_id("helper")
            .build()
        )

        @tool
        async def ask_helper(task: str, context: ToolContext) -> str:
            """Ask a helper."""
            return (await context.spawn(child, task)).text

        builder = self.builder(call("ask_helper", task="Tidy up."), say("The helper was refused."))
        return self.run(builder.with_tools(ask_helper), "Ask a helper.", "family")

    def refused(self) -> str:
        """A prompt that a hook refuses: no step is made."""
        builder = self.builder(say("Never.")).on_prompt_submit(
            lambda _ctx: HookOutcome.block("not on a Sunday"), tier="policy", name="sunday"
        )
        return self.run(builder, "Work!", "refused")

    def many(self, steps: int) -> str:
        """Many steps with two calls each, of which a policy blocks one."""
        both = calls(call("read", path="a.txt"), call("delete", path="notes.txt"))
        builder = self.builder(*[both] * steps, say("Done.")).with_limits(steps=steps + 1)
        return self.run(builder, "Go on and on.", "many")

    def run(self, builder: AgentBuilder, prompt: str, run_id: str) -> str:
        """Run an agent; gives the id."""
        builder.build().run_sync(prompt, run_id=run_id)
        return run_id


def no_notes(ctx: Any) -> HookOutcome | None:
    """A policy about one file."""
    path = str(ctx.tool_call.args.get("path", ""))
    return HookOutcome.block("notes.txt stays") if path == "notes.txt" else None
