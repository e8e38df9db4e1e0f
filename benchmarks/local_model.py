"""The local model at work: 20 small tasks over three tools, in a folder with real files.

    python benchmarks/local_model.py [--model local:] [--json FILE]

A task counts twice: whether the first tool is the right one, and whether the final answer is. The tasks are worded
unlike the examples that the model is shown. Exits with 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hookline import Agent, AgentBuilder, RunResult

FIRST_TOOL_GOAL = 15
ANSWER_GOAL = 11
MOST_STEPS = 5
ANSWERING = "final answer"

FILES = {
    "garden.txt": "The roses need water every second day.",
    "inventory.csv": "hammers, 12",
    "meeting.txt": "The meeting is on Thursday at 14:00.",
    "song.md": "La la la, said the lark.",
    "wifi.txt": "password: bluebird",
}


class Task(NamedTuple):
    """A question, the tool to begin with, and the words of a right answer: of each group at least one."""

    question: str
    tool: str
    words: tuple[str, ...]


TASKS = (
    Task("Could you tell me which files I have?", "list_files", tuple(FILES)),
    Task("Give me an overview of the folder's contents.", "list_files", tuple(FILES)),
    Task("I need the file names in my working directory.", "list_files", tuple(FILES)),
    Task("Can you look around and say what files you see?", "list_files", tuple(FILES)),
    Task("Enumerate every document that is available.", "list_files", tuple(FILES)),
    Task("When is the meeting? It says so in meeting.txt.", "read_file", ("thursday",)),
    Task("Have a look at wifi.txt: what is the password?", "read_file", ("bluebird",)),
    Task("Quote garden.txt for me.", "read_file", ("roses", "water")),
    Task("How many hammers does inventory.csv mention?", "read_file", ("12",)),
    Task("I'd like to know what song.md contains.", "read_file", ("lark",)),
    Task("Summarise meeting.txt.", "read_file", ("meeting", "thursday|14:00")),
    Task("17 + 25 = ?", "add", ("42",)),
    Task("Please find the total of 310 and 48.", "add", ("358",)),
    Task("Lisa owns 12 books and buys 9 new ones. How many does she own now?", "add", ("21",)),
    Task("What does 75 plus 16 come to?", "add", ("91",)),
    Task("If I pour 40 litres and 23 litres into a tank, how many are in it?", "add", ("63",)),
    Task("Which city is the capital of Italy?", ANSWERING, ("rome",)),
    Task("Is ice hot or cold?", ANSWERING, ("cold",)),
    Task("Say hello to Maria.", ANSWERING, ("hello", "maria")),
    Task("How many months are in a year?", ANSWERING, ("12|twelve",)),
)


class Outcome(NamedTuple):
    """What came of a task."""

    question: str
    first_tool: str
    is_first_right: bool
    answer: str
    is_answer_right: bool
    steps: int
    seconds: float


def tools_in(folder: Path) -> list[Callable[..., Any]]:
    """The menu: two tools over the folder's files, and one over numbers."""

    def list_files() -> list[str]:
        """List the files in the folder."""
        return sorted(path.name for path in folder.iterdir())

    def read_file(path: str) -> str:
        """Read a text file."""
        return (folder / Path(path).name).read_text()

    def add(a: float, b: float) -> float:
        """Add two numbers."""
        total = a + b
        return int(total) if total.is_integer() else total

    return [list_files, read_file, add]


def is_right(answer: str, words: tuple[str, ...]) -> bool:
    """Whether an answer has each of the words; a number must stand alone."""
    said = answer.lower()
    numbers = re.findall(r"\d+(?:\.\d+)?", said)
    return all(
        any(one in (numbers if one.isdigit() else said) for one in group.split("|"))
        for group in words
    )


def outcome_of(task: Task, agent: Agent) -> tuple[Outcome, RunResult]:
    """Run one task."""
    began = time.perf_counter()
    result = agent.run_sync(task.question)
    seconds = time.perf_counter() - began
    calls = [call.name for step in result.steps for call in step.calls]
    first = calls[0] if calls else ANSWERING
    right = is_right(result.text, task.words)
    steps = len(result.steps)
    made = Outcome(
        task.question, first, first == task.tool, result.text, right, steps, round(seconds, 2)
    )
    return made, result


def run(model: str) -> dict[str, Any]:
    """All tasks, one after the other, by one agent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            (folder / file).write_text(text)
        agent = (
            AgentBuilder()
            .with_model(model)
            .with_tools(*tools_in(folder))
            .with_limits(steps=MOST_STEPS)
            .build()
        )
        load = _timed(
            lambda: (
                AgentBuilder().with_model(model, options={"max_tokens": 1}).build().run_sync("Hi")
            )
        )
        outcomes, tokens = [], []
        for task in TASKS:
            outcome, result = outcome_of(task, agent)
            outcomes.append(outcome)
            tokens.append(result.usage)
            marks = "".join(
                "+" if right else "-" for right in (outcome.is_first_right, outcome.is_answer_right)
            )
            print(
                f"{marks} {outcome.seconds:5.1f} s  {task.question}  [{outcome.first_tool}]  {outcome.answer[:90]!r}"
            )
    later = [outcome.seconds / outcome.steps for outcome in outcomes[1:]]
    return {
        "model": model,
        "first_tool_right": sum(outcome.is_first_right for outcome in outcomes),
        "answer_right": sum(outcome.is_answer_right for outcome in outcomes),
        "tasks": len(TASKS),
        "load_seconds": round(load, 2),
        "first_task_seconds": outcomes[0].seconds,
        "seconds_per_step": round(statistics.mean(later), 2),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "input_tokens": sum(usage.input_tokens for usage in tokens),
        "cached_tokens": sum(usage.cache_read_tokens for usage in tokens),
        "output_tokens": sum(usage.output_tokens for usage in tokens),
        "outcomes": [outcome._asdict() for outcome in outcomes],
    }


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> int:
    """Run the tasks, print what came of them, and say whether the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="local:")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    found = run(arguments.model)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    print(
        f"\nfirst tool right {found['first_tool_right']} of {found['tasks']} (goal {FIRST_TOOL_GOAL}), "
        f"answer right {found['answer_right']} (goal {ANSWER_GOAL})\n"
        f"load {found['load_seconds']} s, first task {found['first_task_seconds']} s, "
        f"later {found['seconds_per_step']} s a step, peak memory {found['peak_memory_mb']} MB, "
        f"{found['cached_tokens'] * 100 // max(1, found['input_tokens'])} % of the input from the cache"
    )
    is_met = found["first_tool_right"] >= FIRST_TOOL_GOAL and found["answer_right"] >= ANSWER_GOAL
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
