"""A web service whose agent asks a person before it pays, and whose runs outlive the service.

Run it with `uvicorn approval_service:app`, from this directory, with `TOKENS='{"ann": "a long random text"}'` in the
environment. The model is scripted; give `build_agent` a real one.
"""

import json
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    RunResult,
    RunStatus,
    SQLiteJournal,
    ToolHookContext,
    tool,
)
from hookline.errors import RunInUseError, UnknownRunError, UsageError
from hookline.journal import JournalStore, Questions, post_answer
from hookline.state import PendingApproval
from hookline.testing import Scripted, ScriptedDriver, call, say


@tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def ask_about_large_sums(ctx: ToolHookContext) -> HookOutcome | None:
    amount = ctx.tool_call.args["amount"]
    return HookOutcome.ask(f"{amount} is more than 100") if amount > 100 else None


def model_turn(state: AgentState) -> Scripted:
    is_paid = any(step.results for step in state.steps)
    return say("Done.") if is_paid else call("pay", to="Bob", amount=250)


def build_agent(journal: JournalStore) -> Agent:
    # A script is played once, so each run of this example has an agent of its own. With a real model
    # (`.with_model("anthropic:...")`) build one agent and use it for all runs.
    model = ScriptedDriver([model_turn] * 2)
    return (
        AgentBuilder()
        .with_driver(model)
        .with_tools(pay)
        # A policy judges the call that would run: no later hook can change it after the person has seen it.
        .on_before_tool_use(ask_about_large_sums, matcher="pay", tier="policy")
        .with_approval_expiry(24 * 3600)
        .with_journal(journal)
        .build()
    )


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # `async with` closes the journal, so that the last run is on the disk when the service ends.
    async with SQLiteJournal(os.environ.get("JOURNAL", "runs.db")) as journal:
        app.state.journal = journal
        for run in await journal.runs():
            if run.status is RunStatus.RUNNING:  # its process died
                await build_agent(journal).resume(run.run_id)
        yield


app = FastAPI(lifespan=lifespan)


def person(authorization: Annotated[str, Header()] = "") -> str:
    """Who asks. Whoever can answer a question can move money, so nobody is anonymous here."""
    for name, token in json.loads(os.environ["TOKENS"]).items():
        if secrets.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
            return str(name)
    raise HTTPException(401, "a token is needed")


Person = Annotated[str, Depends(person)]


class Prompt(BaseModel):
    """What a run begins with."""

    text: str


class Answer(BaseModel):
    """What a person decides about a call."""

    run: str
    question: str
    allow: bool
    reason: str = ""


def shown(question: PendingApproval) -> dict[str, Any]:
    # An answer is bound to the arguments: show all of them.
    made = question.tool_call
    return {"id": question.id, "tool": made.name, "args": made.args, "reason": question.reason}


def told(result: RunResult) -> dict[str, Any]:
    questions = [shown(question) for question in result.pending]
    return {
        "run": result.run_id,
        "status": result.status,
        "text": result.text,
        "questions": questions,
    }


@app.post("/runs")
async def start(prompt: Prompt, who: Person) -> dict[str, Any]:
    return told(await build_agent(app.state.journal).run(prompt.text))


@app.get("/questions")
async def questions(who: Person) -> dict[str, Any]:
    """What waits for a person, by run; also what an earlier process asked."""
    journal = app.state.journal
    waiting = [run.run_id for run in await journal.runs() if run.status is RunStatus.PAUSED]
    return {run: [shown(q) for q in (await Questions.read(journal, run)).open] for run in waiting}


@app.post("/answers")
async def answer(given: Answer, who: Person) -> dict[str, Any]:
    decision = Decision.allow() if given.allow else Decision.deny(given.reason)
    try:
        # The answer is in the journal before the run continues, with the name of who gave it.
        await post_answer(app.state.journal, given.run, given.question, decision, by=who)
        return told(await build_agent(app.state.journal).resume(given.run))
    except (UnknownRunError, RunInUseError, UsageError) as error:
        # Nothing waits for it, somebody has answered otherwise, or another request continues the run.
        raise HTTPException(409, str(error)) from error
