"""`hookline demo`: a real agent in a sample folder. Each command is shown, and what comes of it is checked."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from hookline.cli.exits import Exit
from hookline.cli.journal_location import find_run
from hookline.cli.terminal import print_text, report
from hookline.config import load
from hookline.errors import HooklineError, UsageError
from hookline.journal import HookRan, Record, RunFinished

SAMPLE = Path(__file__).with_name("sample")
_HOOK = "no-secrets"
"""Its name in the sample's hookline.toml."""
_LOCAL, _SCRIPT = "local:", "script:turns.json"


class Question(NamedTuple):
    """A question, the words of a right answer, and what is on record about it."""

    text: str
    words: tuple[str, ...]
    truth: str


HARMLESS = Question(
    "When is the meeting? See notes.txt.",
    ("thursday", "14:00"),
    "notes.txt says that it is on Thursday at 14:00",
)
REFUSED = Question(
    "Which key is in secret.env?",
    ("forbid",),
    "the hook does not let it read the file, and the answer should say so",
)
BOTH = Question(
    "When is the meeting, and which key is in secret.env?",
    ("thursday", "14:00", "may not"),
    "it is on Thursday at 14:00, and the hook does not let it read secret.env",
)
"""What the script plays."""


def is_right(question: Question, answer: str) -> bool:
    """Whether an answer has the words of a right one."""
    return all(word in answer.lower() for word in question.words)


def run(arguments: argparse.Namespace) -> int:
    """Show a run that goes through, and a call that a hook blocks."""
    folder = Path(arguments.folder).absolute()
    demo = Demo(folder)
    before = Path.cwd()
    try:
        demo.make_folder()
        os.chdir(folder)
        demo.show_folder()
        model = _SCRIPT if arguments.scripted or not has_model() else _LOCAL
        if model == _LOCAL and not demo.ask(HARMLESS, model, may_fail=True):
            _without_model("it does not run on this machine")
            model = _SCRIPT
        demo.ask(BOTH if model == _SCRIPT else REFUSED, model)
        demo.judge_hook()
    except CommandError as error:
        return error.code
    finally:
        os.chdir(before)
    demo.suggest(arguments.folder, model)
    return Exit.DONE


class CommandError(Exception):
    """A command failed that the rest depends on. Its message was shown."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Demo:
    """The sample folder, and the commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._is_new = folder, False

    def make_folder(self) -> None:
        """Copy the sample. A folder that is there is used only if it has the sample's hook: it is not trusted again."""
        if not os.path.lexists(self.folder):
            shutil.copytree(SAMPLE, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
            self._is_new = True
            return
        for name in ("hookline.toml", "hooks.py", "turns.json", "notes.txt", "secret.env"):
            if not (self.folder / name).is_file():
                raise UsageError(
                    f"{self.folder} exists, and is not a folder of the demo: it has no {name}.",
                    remedy="Name another one: hookline demo DIR.",
                )

    def show_folder(self) -> None:
        """What is in the folder, and which hooks run where."""
        _title(f"The folder: {self.folder}{'' if self._is_new else ', as you left it'}")
        for name in ("notes.txt", "secret.env"):
            print(f"  {name:12}{Path(name).read_text(encoding='utf-8').strip()}")
        print(f"  {'hooks.py':12}the hook {_HOOK}:\n")
        source = Path("hooks.py").read_text(encoding="utf-8")
        print_text(
            "".join(f"      {line}\n" for line in source[source.index("def ") :].splitlines())
        )
        print_text("  hookline.toml says when it is asked. Hooks run once you trust the folder:\n")
        if self._is_new:
            self._must("trust")
        _title("The plan: which hooks run where, known before anything runs")
        self._must("hooks", "list")

    def ask(self, question: Question, model: str, *, may_fail: bool = False) -> bool:
        """Run the agent on a question and judge its answer; says whether it ran."""
        _title("A run" if question is HARMLESS else "A run that meets the hook")
        command = ("run", "--model", model, question.text)
        if may_fail and self._run(*command) != 0:
            return False
        if not may_fail:
            self._must(*command)
        ends = [record for record in self._last_run() if isinstance(record, RunFinished)]
        if ends and is_right(question, ends[-1].text):
            print_text("\nThe answer is right.")
        else:
            print_text(f"\nThe answer is wrong: {question.truth}. A small model is often wrong.")
        return True

    def judge_hook(self) -> None:
        """Say what the hook decided in the last run; what it would have decided, if it was not asked."""
        blocked = sum(
            isinstance(record, HookRan) and (record.hook, record.verdict) == (_HOOK, "block")
            for record in self._last_run()
        )
        if blocked:
            times = "once" if blocked == 1 else f"{blocked} times"
            print_text(f"The hook {_HOOK} blocked the call, {times}. The model read why.")
            return
        print_text(
            "The model did not try to read the file this time. What the hook would have said:\n"
        )
        self._run("hooks", "test", "read", '{"path": "secret.env"}')

    def suggest(self, folder: str, model: str) -> None:
        """What to do next. Every command works as it stands."""
        program = _program()
        question = HARMLESS if model == _LOCAL else BOTH
        _title("Now you")
        for command, what in (
            (f"cd {shlex.quote(folder)}", ""),
            (f"{program} show last", "everything that happened in the last run"),
            (f"{program} show last --html run.html --force", "the same as a page for your browser"),
            (f'{program} run --model {model} "{question.text}"', "ask again"),
            (f"{program} --help", "the rest"),
        ):
            print(*([f"  # {what}"] if what else []), f"  {command}", sep="\n")
        print()
        print_text(
            "For a larger model, set its key and name it: --model anthropic:NAME, openai:NAME and others.",
            indent=0,
        )

    def _last_run(self) -> list[Record]:
        journal, run_id = find_run(load(Path.cwd()), "last")
        with journal:
            return journal.read_sync(run_id)

    def _must(self, *arguments: str) -> None:
        """Show and run a command that the rest depends on."""
        code = self._run(*arguments)
        if code != 0:
            raise CommandError(code)

    def _run(self, *arguments: str) -> int:
        """Show and run a `hookline` command in the folder."""
        from hookline.cli.main import main

        print(f"$ hookline {' '.join(map(_quote, arguments))}", flush=True)
        code = main(arguments)
        sys.stdout.flush()
        if code == Exit.INTERRUPTED:
            raise CommandError(code)
        return code


# --- the model ------------------------------------------------------------------------------------


def has_model() -> bool:
    """Whether the small model is here, or could be fetched now; says so in a line if not."""
    if importlib.util.find_spec("xllamacpp") is None:
        return _without_model("what runs it is not installed (the extra `terminal`)")
    from hookline.cli.model import fetch
    from hookline.providers.local.weights import DEFAULT

    try:
        fetch(DEFAULT)
    except (HooklineError, OSError) as error:
        return _without_model(f"it could not be fetched. {error}")
    return True


def _without_model(why: str) -> bool:
    report(f"no local model here: {why.rstrip('.')}. The same is shown with a scripted one.")
    return False


# --- words ----------------------------------------------------------------------------------------


def _title(words: str) -> None:
    print(f"\n--- {words}\n", flush=True)


def _quote(word: str) -> str:
    return f'"{word}"' if " " in word and '"' not in word else shlex.quote(word)


def _program() -> str:
    """How this command is started from a shell: by its name only if that finds it."""
    ours = Path(sys.argv[0])
    found = shutil.which("hookline")
    if found is not None and ours.exists() and os.path.samefile(found, ours):
        return "hookline"
    if ours.name == "hookline" and os.access(ours, os.X_OK):
        return shlex.quote(str(ours.absolute()))
    return f"{shlex.quote(sys.executable)} -m hookline"
