"""The bare loop that overhead is measured against: what a person would write by hand, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from script import ARGUMENTS, NAP_SECONDS, PROMPT, Run, Script, Workload

Call = dict[str, str]
Model = Callable[[int], Awaitable[Call | None]]
Tools = dict[str, Callable[..., Awaitable[object]]]
Hooks = list[Callable[[Call], Awaitable[None]]]


async def bare_loop(model: Model, tools: Tools, hooks: Hooks, prompt: str) -> list[dict[str, Any]]:
    """Run until `model(i)` gives no call; a call is {"id", "name", "arguments" (JSON text)}."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    i = 0
    while (call := await model(i)) is not None:
        args = json.loads(call["arguments"])
        messages.append({"role": "assistant", "tool_calls": [call]})
        for hook in hooks:
            await hook(call)
        result = await tools[call["name"]](**args)
        for hook in hooks:
            await hook(call)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        i += 1
    return messages


async def bare_batch(model: Model, batch: list[Call], tools: Tools) -> list[dict[str, Any]]:
    """One step with several calls: the loop above with `gather` in place of `await`."""
    await model(0)
    results = await asyncio.gather(
        *(tools[call["name"]](**json.loads(call["arguments"])) for call in batch)
    )
    await model(1)
    return [
        {"role": "tool", "tool_call_id": c["id"], "content": str(r)}
        for c, r in zip(batch, results, strict=True)
    ]


async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def nap(text: str) -> str:
    """Wait, then give the text back."""
    await asyncio.sleep(NAP_SECONDS)
    return text


async def before(call: Call) -> None:
    """The hook that does nothing, called before and after the tool."""


TOOLS: Tools = {"echo": echo, "nap": nap}


def build(workload: Workload) -> Run:
    """The bare loop as a candidate."""
    hooks: Hooks = [before] * workload.hooks

    async def run(script: Script) -> object:
        edges, last = (script.first, script.last), script.last

        async def model(i: int) -> Call | None:
            # Script.turn by hand: one more call is 3 % of a step that all else is divided by.
            if script.pause:
                await asyncio.sleep(0)
            if i in edges:
                script.stamp()
            script.turns = i + 1
            if i == last:
                return None
            return {"id": f"call_{i}", "name": workload.tool, "arguments": ARGUMENTS}

        if script.calls == 1:
            return await bare_loop(model, TOOLS, hooks, PROMPT)
        batch = [
            {"id": f"call_{n}", "name": workload.tool, "arguments": ARGUMENTS}
            for n in range(script.calls)
        ]
        return await bare_batch(model, batch, TOOLS)

    return run
