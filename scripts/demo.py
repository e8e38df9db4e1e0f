"""Run a real agent in a sample folder: no key, no configuration, nothing but Python.

    python3 scripts/demo.py              with a small model that is fetched once
    python3 scripts/demo.py --scripted   with a scripted model: nothing is fetched but what Hookline needs

It makes the folder `hookline-demo`, in which the agent has one tool, `read`, and one hook. Then it does what you would
do there with the `hookline` command, and shows each command. All of it is real. Whether a small model does as it is
told is not certain; where it does not, that is said.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import environment

SAMPLE = environment.ROOT / "examples" / "sample"
FOLDER = environment.ROOT / "hookline-demo"
HOOKLINE = environment.PROGRAMS / "hookline"
HOOK = "no-secrets"  # its name in the sample's hookline.toml

HARMLESS = "When is the meeting? See notes.txt."
REFUSED = "What is in secret.env?"
BOTH = "When is the meeting, and which key is in secret.env?"  # what the scripted model plays
SCRIPT = "script:turns.json"


def main() -> int:
    """Set everything up, and show a run that goes through and a call that a hook blocks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scripted", action="store_true", help="use a scripted model")
    has_model = not parser.parse_args().scripted and _has_model()
    if not has_model:
        environment.ensure()
    _make_folder()
    if not (has_model and _with_model()):
        _with_script()
    _what_next()
    return 0


# --- the model ------------------------------------------------------------------------------------


def _has_model() -> bool:
    """Install and fetch the local model, if that can be done here; says so in a line if it cannot."""
    try:
        environment.ensure("terminal")
    except SystemExit:
        return _without_model("what runs it could not be installed")
    if environment.run(HOOKLINE, "model", "get", quiet=True) != 0:
        return _without_model("it could not be fetched")
    return True


def _without_model(why: str) -> bool:
    environment.say(f"No local model here: {why}. The same is shown with a scripted one.")
    return False


# --- what is shown --------------------------------------------------------------------------------


def _make_folder() -> None:
    is_new = not FOLDER.exists()
    if is_new:
        shutil.copytree(SAMPLE, FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    _title(f"The folder: {_short(FOLDER)}{'' if is_new else ', as you left it'}")
    for name in ("notes.txt", "secret.env"):
        print(f"  {name:12}{(FOLDER / name).read_text(encoding='utf-8').strip()}")
    print(f"  {'hooks.py':12}the hook {HOOK}:\n")
    source = (FOLDER / "hooks.py").read_text(encoding="utf-8")
    print("".join(f"      {line}\n" for line in source[source.index("def ") :].splitlines()))
    print("  hookline.toml says who is asked when. A folder's hooks run once you trust them:\n")
    _must("trust")
    _title("The plan: which hooks run where, known before anything runs")
    _must("hooks", "list")


def _with_model() -> bool:
    """Both runs with the local model; says whether the model runs here at all."""
    _title("A run. The answer is standard output, the rest is standard error")
    if _hookline("run", HARMLESS) != 0:
        return _without_model("it does not run on this machine")
    _title("A run that meets the hook")
    _must("run", REFUSED)
    _verdict()
    return True


def _with_script() -> None:
    _title("A run that meets the hook, with a scripted model")
    _must("run", "--model", SCRIPT, BOTH)
    _verdict()


def _verdict() -> None:
    """Say what the hook said in the last run; and what it would have said, if it was not asked."""
    count = _blocked_calls()
    if count:
        times = "once" if count == 1 else f"{count} times"
        print(f"\nThe hook {HOOK} blocked the call, {times}. The model read why, and went on.")
        return
    print("\nThe model did not try to read the file this time. What the hook would have said:\n")
    _hookline("hooks", "test", "read", '{"path": "secret.env"}')


def _blocked_calls() -> int:
    """How many calls the hook blocked in the last run, by its journal."""
    shown = subprocess.run(
        [HOOKLINE, "show", "last", "--json"], cwd=FOLDER, stdout=subprocess.PIPE, check=True
    )
    records = map(json.loads, shown.stdout.splitlines())
    return sum((r.get("hook"), r.get("verdict")) == (HOOK, "block") for r in records)


def _what_next() -> None:
    _title("Now you")
    for command, what in (
        (f"cd {shlex.quote(_short(FOLDER))}", ""),
        (f'export PATH="{environment.PROGRAMS}:$PATH"', ""),
        ("hookline show last", "everything that happened in the last run"),
        ('hookline run -c "..."', "continue it"),
        (
            "hookline run --model anthropic:NAME ...",
            "with a larger model and its key: see docs/models.md",
        ),
        ("hookline --help", "the rest"),
    ):
        print(f"  {command:42}{f'# {what}' if what else ''}".rstrip())


# --- commands -------------------------------------------------------------------------------------


def _must(*arguments: str) -> None:
    """Show and run a command that the rest depends on."""
    code = _hookline(*arguments)
    if code != 0:
        sys.exit(f"\nThat should have worked, and ended with {code}: its message is above.")


def _hookline(*arguments: str) -> int:
    """Show and run a `hookline` command in the folder."""
    print(f"$ hookline {' '.join(map(_quoted, arguments))}", flush=True)
    return environment.run(HOOKLINE, *arguments, cwd=FOLDER)


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word and '"' not in word else shlex.quote(word)


def _short(path: Path) -> str:
    """A path as it is written from here, where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)


def _title(words: str) -> None:
    print(f"\n--- {words}\n", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
