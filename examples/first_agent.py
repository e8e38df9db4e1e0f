"""A first agent. The model is scripted, so it needs no key and no network; the rest is real.

Run it with `.venv/bin/python examples/first_agent.py`.
"""

from hookline import (
    AgentBuilder,
    ContinuationOutcome,
    HookOutcome,
    ToolCall,
    ToolHookContext,
    tool,
)
from hookline.testing import ScriptedDriver, call, calls, say

FILES = {"build/app.o", "build/app.log", "notes.txt"}
AUDIT = []


@tool(effect="pure")
def list_files() -> list[str]:
    """List all files."""
    return sorted(FILES)


@tool
def delete(path: str) -> str:
    """Delete one file."""
    FILES.remove(path)
    return f"deleted {path}"


def only_build(ctx: ToolHookContext) -> HookOutcome | None:
    path = ctx.tool_call.args["path"]
    return None if path.startswith("build/") else HookOutcome.block(f"{path} is not in build/")


def audit(ctx: ToolHookContext) -> None:
    AUDIT.append(f"{call_text(ctx.tool_call)}: {ctx.execution.status}")


def describe() -> AgentBuilder:
    turns = [
        call("list_files"),
        calls(call("delete", path="build/app.o"), call("delete", path="notes.txt")),
        say("I deleted build/app.o. I am not allowed to delete notes.txt, so I left it alone."),
    ]
    return (
        AgentBuilder()
        .with_id("first-agent")
        .with_driver(ScriptedDriver(turns))
        .with_tools(list_files, delete)
        .on_before_tool_use(only_build, matcher="delete", tier="policy", name="only-build")
        .on_after_tool_use(audit, tier="observer", name="audit")
    )


def call_text(made: ToolCall) -> str:
    return f"{made.name}({', '.join(f'{key}={value}' for key, value in made.args.items())})"


def what_now(outcome: ContinuationOutcome) -> str:
    return f"{'continue' if outcome.should_continue else 'stop'}: {outcome.reason}"


SHOWN = {  # type of record -> what to say about it
    "run_started": lambda r: f"by {r.agent_id}",
    "prompt": lambda r: r.text,
    "step_started": lambda r: f"step {r.step + 1}",
    "hooks": lambda r: f"{r.point}: {' and '.join(r.hooks)} did not object",
    "hook": lambda r: f"{r.point}: {r.hook} says {r.verdict}{r.reason and f', {r.reason}'}",
    "request": lambda r: f"what the model reads (number of messages: {r.messages})",
    "response": lambda r: r.text or f"the model calls {' and '.join(map(call_text, r.calls))}",
    "call": lambda r: f"{call_text(r.call)} is about to run",
    "tool_result": lambda r: f"{r.result.name} -> {r.result.text}",
    "step": lambda r: f"step {r.step.number} is settled: {r.step.type}, {what_now(r.step.outcome)}",
    "status": lambda r: r.status,
    "result": lambda r: r.text,
}


def main() -> None:
    agent = describe().build()
    print("THE PLAN: what runs where, known before anything runs\n")
    print(agent.explain())
    print("\nTHE JOURNAL: all that happened, one line per record\n")
    result = agent.run_sync("Clean up build/.")
    for record in result.records:
        print(f"{record.seq:4}  {record.type:12}  {SHOWN.get(record.type, str)(record)}")
    print("\nWHAT THE OBSERVER SAW\n", *AUDIT, sep="\n  ")
    print(f"\nWHY IT STOPPED\n\n  {result.explain()}")


if __name__ == "__main__":
    main()
