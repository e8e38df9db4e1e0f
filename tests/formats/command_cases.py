"""What the command says about a home that an earlier version left behind, as plain JSON."""

from __future__ import annotations

import gzip
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from command_line import ALL_KEYS, HERE, HOME, PROJECT, ROOT, hookline, rows, steady

ON_HOST = ("--sandbox", "host")
TRUST = Path(".config/hookline/trusted-projects.json")
JOURNALS = Path(".local/share/hookline/projects")
OTHER_CONFIG = ROOT / "conf"
"""The configuration directory of the user whose file has all keys that only a user may set."""

EXIT_CODES = {
    "done": (0, ("run", "-q", "--bare", *ON_HOST, "--model", "script:looking.json", "Look.")),
    "failed": (1, ("run", "-q", "--bare", *ON_HOST, "--model", "script:endless.json", "Look.")),
    "wrong use": (2, ("run", "--nope")),
    "limit": (3, ("run", "-q", "--bare", *ON_HOST, "--model", "script:endless.json", "--max-steps", "1", "Look.")),
    "blocked": (4, ("run", "-q", *ON_HOST, "The key is sk-abc123.")),
    "waiting": (5, ("run", "-q", "--bare", *ON_HOST, "--model", "script:paying.json", "--ask", "bash", "Pay.")),
    "no such run": (1, ("show", "nothing")),
    "hooks ask": (5, ("hooks", "test", "--bare", "--ask", "bash", *ON_HOST, "bash", "echo hello")),
    "lint": (1, ("hooks", "lint", *ON_HOST)),
}  # fmt: skip
"""Exit codes, and how they come about; 0 and 4 of `hooks test`, and 6, are among the outcomes."""


def write_home(target: Path) -> None:
    """Trust the project, run in it, and keep what that leaves in the home."""
    _done(hookline("trust"))
    _done(hookline("trust", "--repository"))
    _done(hookline("run", *ON_HOST, "--model", "script:looking.json", "Look."))
    _done(hookline("run", *ON_HOST, "--model", "script:paying.json", "Pay."), code=5)
    _done(hookline("resume", "--allow", "all"))
    _done(hookline("run", "--continue", *ON_HOST, "--model", "script:looking.json", "Look again."))
    _done(hookline("run", *ON_HOST, "--model", "script:paying.json", "Pay again."), code=5)
    home = target / "home"
    (home / TRUST).parent.mkdir(parents=True)
    shutil.copy(HOME / TRUST, home / TRUST)
    for path in HOME.glob(f"{JOURNALS}/*/journal.db"):
        kept = home / path.relative_to(HOME).with_name("journal.db.gz")
        kept.parent.mkdir(parents=True)
        kept.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    set_up_other()
    _done(hookline("trust", folder=ALL_KEYS, HOOKLINE_CONFIG_DIR=str(OTHER_CONFIG)))
    shutil.copy(OTHER_CONFIG / TRUST.name, target / "all-keys-trust.json")
    (target / "schema.json").write_text(hookline("config", "schema").stdout)


def _done(ran: Any, code: int = 0) -> None:
    if ran.returncode != code:
        raise SystemExit(f"{ran.args} ended with {ran.returncode}: {ran.stderr}")


def set_up_other() -> None:
    """The directory of the user who sets everything."""
    OTHER_CONFIG.mkdir(exist_ok=True)
    shutil.copy(HERE / "all_keys_home/config.toml", OTHER_CONFIG / "config.toml")


def unpack_home(data: Path) -> None:
    """Put the home back that the data has."""
    for path in (data / "home").rglob("*"):
        if not path.is_file():
            continue
        there = HOME / path.relative_to(data / "home")
        there.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        if there.suffix == ".gz":
            there, content = there.with_suffix(""), gzip.decompress(content)
        there.write_bytes(content)
        there.chmod(0o600)
    set_up_other()
    shutil.copy(data / "all-keys-trust.json", OTHER_CONFIG / TRUST.name)
    (OTHER_CONFIG / TRUST.name).chmod(0o600)


def outcomes() -> dict[str, Any]:
    """What the command says. Everything that only reads is asked at the same time."""
    runs = rows(hookline("runs", "--json"))
    waiting, finished = (
        next(run["run_id"] for run in runs if run["status"] == status)
        for status in ("paused", "completed")
    )
    other = {"folder": ALL_KEYS, "HOOKLINE_CONFIG_DIR": str(OTHER_CONFIG)}
    with ThreadPoolExecutor(3) as pool:
        asked = {
            "show": pool.submit(lambda: rows(hookline("show", waiting, "--json"))),
            "replay": pool.submit(lambda: _said(hookline("replay", finished))),
            "trust": pool.submit(lambda: _first(hookline("trust", "--show"))),
            "trust all keys": pool.submit(lambda: _first(hookline("trust", "--show", **other))),  # type: ignore[arg-type]
            "hooks": pool.submit(lambda: _hooks(hookline("hooks", "list", "--json", *ON_HOST))),
            "hooks test": pool.submit(
                lambda: _verdicts(hookline("hooks", "test", "--json", *ON_HOST, "bash", "git push"))
            ),
            "git": pool.submit(
                lambda: _verdicts(
                    hookline("hooks", "test", "--json", *ON_HOST, "bash", "git status")
                )
            ),
            "config": pool.submit(lambda: rows(hookline("config", "show", "--json"))),
            "all keys": pool.submit(lambda: rows(hookline("config", "show", "--json", **other))),  # type: ignore[arg-type]
            "tools": pool.submit(lambda: _tools(hookline("tools", "--json", *ON_HOST))),
            "wrong": pool.submit(lambda: [hookline("runs", HOOKLINE_MAX_STEP="3").returncode]),
            "where": pool.submit(lambda: _said(hookline("config", "where"))),
            "backtest": pool.submit(lambda: _report(hookline("backtest", "--json", *ON_HOST))),
        }
        return {"runs": runs, **{name: future.result() for name, future in asked.items()}}


def resumed() -> list[Any]:
    """The records of the paused run, from where it continues."""
    return steady(rows(hookline("resume", "--allow", "all", "--json")))  # type: ignore[no-any-return]


def distrusted() -> dict[str, str]:
    """What is said about trust when a script, or git's configuration, has changed."""
    (PROJECT / "hooks/guard.sh").write_text("exit 0\n")
    (PROJECT / ".git/config").write_text("[core]\n\tfsmonitor = ./evil\n")
    verdicts = _verdicts(hookline("hooks", "test", "--json", *ON_HOST, "bash", "git status"))
    return {
        "trust": _first(hookline("trust", "--show")),
        "git": next(kind for hook, kind in verdicts["verdicts"] if hook == "bash-policy"),
    }


def exit_codes() -> dict[str, int]:
    """The exit codes of all rows of the table."""
    with ThreadPoolExecutor(3) as pool:
        done = pool.map(lambda row: hookline(*row[1]).returncode, EXIT_CODES.values())
        return dict(zip(EXIT_CODES, done, strict=True))


def _said(ran: Any) -> list[Any]:
    return [ran.returncode, ran.stdout]


def _first(ran: Any) -> str:
    return str(ran.stderr.partition("\n")[0])


def _hooks(ran: Any) -> list[list[str]]:
    return [[row[key] for key in ("point", "hook", "tier", "from")] for row in rows(ran)]


def _verdicts(ran: Any) -> dict[str, Any]:
    return {
        "code": ran.returncode,
        "verdicts": [[row["hook"], row["kind"]] for row in rows(ran)],
    }


def _tools(ran: Any) -> dict[str, list[str]]:
    return {row["name"]: sorted(row["parameters"].get("properties", {})) for row in rows(ran)}


def _report(ran: Any) -> dict[str, Any]:
    report = json.loads(ran.stdout)
    shape = {key: sorted(report[key][0]) for key in ("hooks", "changes") if report[key]}
    said = {key: value for key, value in report.items() if key != "hooks"}
    return {"code": ran.returncode, "keys": shape, **steady(said)}
