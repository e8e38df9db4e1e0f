"""Modules of a project are imported from the source that was trusted, and from nothing beside it."""

from __future__ import annotations

import importlib.util
import marshal
import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from hookline.cli.assembly.hooks import load_hook
from hookline.cli.project_modules import import_from_source, importable
from hookline.cli.target import find_target
from hookline.errors import ConfigError, HooklineError


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own modules."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))


def write(path: Path, text: str) -> Path:
    """A file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def leave_bytecode(source: Path, text: str, *, checked: bool) -> None:
    """Bytecode that claims to be made from a source, or that is never compared with it."""
    code = marshal.dumps(compile(text, str(source), "exec"))
    facts = source.stat()
    times = int(facts.st_mtime).to_bytes(4, "little") + facts.st_size.to_bytes(4, "little")
    head = (0).to_bytes(4, "little") + times if checked else (1).to_bytes(4, "little") + bytes(8)
    for path in (Path(importlib.util.cache_from_source(str(source))), source.with_suffix(".pyc")):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(importlib.util.MAGIC_NUMBER + head + code)


def load(project: Path, target: str) -> Any:
    """A hook of a project."""
    return load_hook(target, [project, project / ".hookline"], project)


@pytest.mark.parametrize("folder", ["project", "web-packages/project"])
@pytest.mark.parametrize("checked", [True, False])
def test_bytecode_is_neither_read_nor_written(tmp_path: Path, checked: bool, folder: str) -> None:
    """Of a module, and of a package in `.hookline`; for a hook, and for an agent that is named."""
    tmp_path = tmp_path / folder
    for name in ("guards.py", ".hookline/checks/__init__.py", ".hookline/checks/more.py"):
        source = write(tmp_path / name, "from_source = True\n")
        leave_bytecode(source, "from_source = False\n", checked=checked)
    assert load(tmp_path, "guards:from_source") is True
    assert load(tmp_path, "checks.more:from_source") is True
    write(tmp_path / "fresh.py", "from_source = True\n")
    assert load(tmp_path, "fresh:from_source") is True
    assert not list(tmp_path.glob("__pycache__/fresh.*"))


def test_bytecode_beside_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user names the agent; its modules come from their sources too, and any of them may be imported."""
    monkeypatch.chdir(tmp_path)
    for name in ("my_agents.py", "my_parts.py"):
        source = write(tmp_path / name, "from_source = True\n")
        leave_bytecode(source, "from_source = False\n", checked=True)
    (tmp_path / f"my_agents{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    assert find_target("my_agents:from_source") is True
    assert import_module("my_parts").from_source is True


def test_an_extension_does_not_replace_the_source(tmp_path: Path) -> None:
    """Without a source it is loaded if it was trusted, and is still the same. This one is no library, which is seen."""
    write(tmp_path / "guards.py", "from_source = True\n")
    for suffix in EXTENSION_SUFFIXES:
        (tmp_path / f"guards{suffix}").write_bytes(b"no library")
        (tmp_path / f"alone{suffix}").write_bytes(b"no library")
    assert load(tmp_path, "guards:from_source") is True
    with pytest.raises(ConfigError, match="ImportError"):
        load(tmp_path, "alone:anything")
    trusted = [tmp_path / f"alone{suffix}" for suffix in EXTENSION_SUFFIXES]
    import_from_source(tmp_path, trusted)
    for each in trusted:
        each.write_bytes(b"another one")
    with importable([tmp_path]), pytest.raises(ImportError, match="has changed since"):
        import_module("alone")


def test_what_is_imported_later_is_what_was_trusted(tmp_path: Path) -> None:
    """A hook that imports when it is called gets what was there when it was loaded; nothing new is imported."""
    text = "def ask(name):\n    from pkg import later\n    return later.said if name else __import__('pkg.new')\n"
    write(tmp_path / "pkg/__init__.py", text)
    write(tmp_path / "pkg/later.py", "said = 'trusted'\n")
    ask = load(tmp_path, "pkg:ask")
    write(tmp_path / "pkg/later.py", "said = 'changed'\n")
    write(tmp_path / "pkg/new.py", "said = 'new'\n")
    assert ask("later") == "trusted"
    with pytest.raises(ImportError, match=r"new\.py is not among the files that were trusted"):
        ask("")


def test_packages_in_development_are_imported_as_usual(tmp_path: Path) -> None:
    """They are on the user's own path, wherever in the project that is; installed ones are none of ours."""
    write(
        tmp_path / "guards.py", "import developed, installed\nfound = developed.x + installed.x\n"
    )
    write(tmp_path / "libs/one/developed.py", "x = 1\n")
    write(tmp_path / ".venv/lib/site-packages/installed.py", "x = 2\n")
    sys.path += [str(tmp_path / "libs/one"), str(tmp_path / ".venv/lib/site-packages")]
    assert load(tmp_path, "guards:found") == 3
    assert not list(tmp_path.glob("libs/one/__pycache__/*"))
    assert list(tmp_path.glob(".venv/lib/site-packages/__pycache__/*")) or sys.dont_write_bytecode


def test_errors_have_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Python's own loader."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "broken.py", "x = 1\nraise ValueError('no')\n")
    write(tmp_path / "wrong.py", "x = (\n")
    with pytest.raises(HooklineError, match=r"broken\.py:2: ValueError: no"):
        find_target("broken:x")
    with pytest.raises(HooklineError, match=r"wrong\.py:1: SyntaxError"):
        find_target("wrong:x")


def test_the_users_own_hooks_are_not_searched_in_a_project(place: Any) -> None:
    """A clone that has a module of the same name runs nothing; the module is beside the user's file, or installed."""
    canary = place.home / "CANARY"
    hook = '[[hooks]]\non = "before_tool_use"\nrun = "my_guards:refuse"\n'
    own = write(place.home / ".config/hookline/config.toml", hook)
    text = "def refuse(ctx):\n    from hookline import HookOutcome\n    return HookOutcome.block('mine')\n"
    write(own.parent / "my_guards.py", text)
    for name in ("my_guards.py", ".hookline/my_guards.py"):
        place.write(name, f"open({str(canary)!r}, 'w')\ndef refuse(ctx): pass\n")
    script = place.script({"call": "list", "args": {}}, {"say": "done"})
    done = place.run("run", "--model", script, "go")
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stderr
    assert not canary.exists()


def test_a_users_server_finds_nothing_of_a_project(place: Any) -> None:
    """Neither a module in the place of the standard library, nor a program; and its script finds its own modules."""
    canary = place.home / "CANARY"
    write(place.home / "servers/helper.py", f"open({str(place.home / 'MINE')!r}, 'w')\n")
    script = write(place.home / "servers/server.py", "import json, helper\n")
    place.write("json.py", f"open({str(canary)!r}, 'w')\n")
    place.write("bin/python3", f"#!/bin/sh\necho > '{canary}'\n").chmod(0o755)
    path = f"{place.project}/bin:{os.environ['PATH']}"
    for args in (f'["{script}"]', '["-c", "import json"]', '["-m", "json.tool", "--help"]'):
        text = f'[mcp.time]\ncommand = "python3"\nargs = {args}\n'
        write(place.home / ".config/hookline/config.toml", text)
        done = place.run("run", "--model", place.script({"say": "done"}), "go", PATH=path)
        assert "MCP server 'time'" in done.stderr  # it is no server, and has ended
    assert not canary.exists()
    assert (place.home / "MINE").exists()


def test_trust_in_a_server_or_a_hook_is_bound_to_the_code_beside_its_script(place: Any) -> None:
    """A script that is named, and all code beside it: it may be imported in the place of another."""
    server = '[mcp.time]\ncommand = "python3"\nargs = ["tools/server.py"]\n'
    hook = '[[hooks]]\non = "before_tool_use"\ncommand = "cd tools && python3 guard.py"\n'
    for text, source in ((server, "tools/server.py"), (hook, "tools/guard.py")):
        place.write("hookline.toml", text)
        place.write("tools/__init__.py", "")
        place.write(source, "import yaml\n")
        assert place.run("trust", ".").returncode == 0
        assert source in place.run("trust", "--show", ".").stdout
        for new in ("tools/org.py", "tools/yaml.py", "tools/lib/idna.so", source):
            before = (place.project / new).read_text() if (place.project / new).exists() else None
            place.write(new, "changed = True\n")
            shown = place.run("trust", "--show", ".")
            assert "changed since it was trusted" in shown.stderr, new
            assert f"{new}  (changed)" in shown.stdout
            if before is None:
                (place.project / new).unlink()
            else:
                place.write(new, before)
        assert place.run("trust", "--show", ".").returncode == 0
