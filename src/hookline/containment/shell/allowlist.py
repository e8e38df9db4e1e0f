"""What is allowed without asking: commands that only read, and show no secret.

Nothing is assumed: a program that is in no table, an option that is in no table, a word of which it is not known what
bash makes of it, each is a reason to ask. Words are judged as what they become where they stand, and files as where
they lead: the policy looks at the disk.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from hookline.containment.links import is_below, real_path
from hookline.containment.shell.command_reader import read_command
from hookline.containment.shell.git_trust import git_objection
from hookline.containment.shell.git_verbs import GIT, GIT_VERBS
from hookline.containment.shell.options import OptionTable, read_call
from hookline.containment.shell.places import Places, expand
from hookline.containment.shell.programs import (
    PROGRAMS,
    SHORT_VERSIONS,
    TAKES_ANY_WORD,
    VERSIONED,
    WRAPPERS,
    XARGS,
)
from hookline.containment.shell.secrets import (
    can_pick_secret,
    has_home,
    is_hidden_in_home,
    is_secret,
    is_whole_home,
)
from hookline.containment.shell.words import Command, Redirect, Word

_BIN = re.compile(r"(?:/usr)?(?:/local)?/s?bin/|/opt/homebrew/s?bin/|/run/current-system/sw/bin/")
_BUILTINS = frozenset("cd echo printf test [ : true false pwd type command".split())
_SETTABLE = {
    "LC_ALL": r"C|POSIX|[\w.]*\.UTF-?8",
    "LANG": r"C|POSIX|[\w.]*\.UTF-?8",
    "TZ": r"[A-Za-z][\w/+-]*",
    "NO_COLOR": r"\w*",
    "COLUMNS": r"\d*",
    "GIT_PAGER": r"(?:cat)?",
}
"""Variables that may be set for a command, and to what. In other languages a backslash may be half a character."""
_SHELLS = frozenset({"bash", "sh"})
_OF_BASH = re.compile(r"[$`{}~\\]|&>|\|&")
"""What another shell than bash may read otherwise."""
_RECURSIVE = ("-r", "--recursive")
_PICKS = ("-g", "--glob", "--iglob", "--include")


class Allowlist(msgspec.Struct):
    """Looks at the commands of a line, one after the other."""

    places: Places
    trusted: Collection[str | os.PathLike[str]] = ()
    programs: Mapping[str, Sequence[str]] = {}
    is_changed: bool = False
    """Whether another command of the line may make files and links."""
    depth: int = 0
    """How many shells it is in that were given a text."""

    def objection(self, command: Command) -> str | None:
        """Why a command may do more than read, or None. Later commands are seen from where it leaves the shell."""
        for name, value in command.assignments:
            if not (value.exact and re.fullmatch(_SETTABLE.get(name, "(?!)"), value.text)):
                return f"it sets {name}"
        for redirect in command.redirects:
            if problem := self._redirect(redirect):
                return problem
        if not command.words[0].exact:
            return "its program is not known"
        name = program_name(command.words[0].text)
        for where in self.places.wheres:
            words = self._expand(command.words[1:], where)
            if isinstance(words, str):
                return words
            problem = self._program(name, words, where)
            if problem := problem or self._elsewhere(name, where):
                return problem
        if name == "cd":
            target = expand(command.words[1], self.places.wheres[0]) if command.words[1:] else []
            if not self.places.move(target[0].text if target else ""):
                return "it redirects to too many files"
        return None

    def _redirect(self, redirect: Redirect) -> str | None:
        if redirect.can_write:
            return f"it writes to {redirect.target.text}"
        if redirect.operator != "<":
            return None
        return self._files([redirect.target], self.places.wheres)

    def _expand(self, words: Sequence[Word], where: str) -> list[Word] | str:
        """The words as bash would give them to a program. No program is given a name that looks like an option."""
        found: list[Word] = []
        for word in words:
            names = None if self.is_changed and not word.exact else expand(word, where)
            if names is None:
                return f"it is not known what {word.text} becomes"
            if odd := next((n.text for n in names if not n.exact and n.text[:1] == "-"), None):
                return f"{word.text} finds {odd}, which it may take for an option"
            found += names
        return found

    def _program(self, name: str, words: list[Word], where: str) -> str | None:
        """By its words alone."""
        if [word.text for word in words] in (["--version"], [SHORT_VERSIONS.get(name)]) and (
            name in VERSIONED
        ):
            return None
        if name == "cd":
            is_plain = len(words) <= 1 and all(w.exact and w.text[:1] != "-" for w in words)
            return (
                None
                if is_plain and "CDPATH" not in os.environ
                else "it is not known where its output goes"
            )
        if name == "git":
            return self._git(words, where)
        if name == "xargs":
            return self._xargs(words, where)
        if name in _SHELLS:
            return self._script(name, words, where)
        if name in WRAPPERS:
            return self._check_wrapped(name, words, where)
        if name in PROGRAMS:
            return self._call(name, PROGRAMS[name], words, where)
        if name in self.programs:
            return self._check_added(self.programs[name], words, where)
        return f"{name} is not known to be read-only"

    def _script(self, name: str, words: Sequence[Word], where: str) -> str | None:
        """`bash -c TEXT`: the text is read like a line of its own. A login shell (`-lc`) obeys a profile before.

        `bash -n FILE` runs nothing, and shows the lines that it cannot parse.
        """
        texts = [word.text for word in words]
        if texts[:-1] == ["-n"] and texts[-1][:1] not in {"", "-", "+"}:
            return self._files(words[1:], [where])
        is_plain = texts[:-1] == ["-c"] and all(word.exact for word in words)
        if not is_plain or self.depth or (name == "sh" and _OF_BASH.search(texts[-1])):
            return "it is not known what it runs"
        reading = read_command(texts[-1])
        if not reading.is_known or not reading.commands:
            return f"it cannot be said what it runs: {reading.problem or 'nothing'}"
        self.depth = 1
        problem = next(filter(None, map(self.objection, reading.commands)), None)
        self.depth = 0
        return problem

    def _elsewhere(self, name: str, where: str, *, is_started: bool = False) -> str | None:
        """Why a program may not be the one of the system. `is_started`: by another program, not by bash.

        One in a home may be a shim of a version manager, which runs what a file of the project names.
        """
        if name in _BUILTINS and not is_started:
            return None
        elsewhere = f"{name} may be {{}}, which is not in a directory of the system"
        for entry in _suspicious_entries(os.environ.get("PATH", ""), self.places.root):
            path = os.path.join(where, entry, name)
            if self.is_changed or os.path.lexists(path):
                return elsewhere.format(path)
        found = None if name in self.programs else shutil.which(name)
        return None if found is None or program_name(found) == name else elsewhere.format(found)

    def _call(
        self, name: str, options: OptionTable, words: Sequence[Word], where: str
    ) -> str | None:
        call = read_call(options, words)
        if isinstance(call, str):
            return call
        if not options.shows:
            return None
        if picked := next(filter(can_pick_secret, call.values(*_PICKS)), None):
            return f"{picked} may pick files with secrets"
        is_recursive = name == "rg" or (name == "grep" and call.has(*_RECURSIVE))
        if is_recursive and (problem := self._check_search(call.files, where)):
            return problem
        if name == "diff" and any(os.path.isdir(os.path.join(where, f.text)) for f in call.files):
            return "it compares whole directories, and follows the links in them"
        return self._files(call.files, [where])

    def _check_search(self, files: Sequence[Word], where: str) -> str | None:
        """Whether a search goes through a place where secrets lie."""
        for text in [word.text for word in files] or [where]:
            if self.is_changed:
                return "it is not known what is there when it runs"
            for form in self.places.forms(text, where):
                if is_whole_home(form) or is_secret(form) or is_hidden_in_home(form):
                    return f"{text} holds secrets somewhere"
            if has_home(os.path.join(where, os.path.expanduser(text)), self.places.homes):
                return f"{text} holds secrets somewhere"
        return None

    def _files(self, words: Sequence[Word], wheres: Sequence[str]) -> str | None:
        """Whether one of some files may be a secret, as it is written or where it leads."""
        for word in words:
            if self.is_changed and word.text not in {"", "/dev/null"}:
                return f"it is not known what {word.text} is when it runs"
            for where in wheres:
                if word.text == "-" and os.path.lexists(os.path.join(where, "-")):
                    return "it may read the file -"
                for form in self.places.forms(word.text, where):
                    if is_secret(form) or form.startswith("/inet"):
                        led = "" if is_secret(word.text) else f", which leads to {form},"
                        return f"{word.text}{led} may hold secrets"
        return None

    def _xargs(self, words: Sequence[Word], where: str) -> str | None:
        """`xargs -0` or `-d '\\n'`, with a program that takes any word: which words these are is not known."""
        own = read_call(XARGS, words, to_operand=True)
        if isinstance(own, str):
            return own
        program, *given = own.rest or (Word(""),)
        name = program_name(program.text) if program.exact else ""
        if name not in TAKES_ANY_WORD:
            return "it is not known what it reads, or what it runs"
        ends = [*(["\0"] if own.has("-0") else []), *own.values("-d")]
        if ends not in (["\0"], ["\n"], ["\\n"]):
            return "without -0 or -d '\\n' it splits names"
        return self._elsewhere(name, where, is_started=True) or self._call(
            name, PROGRAMS[name], given, where
        )

    def _check_wrapped(self, name: str, words: Sequence[Word], where: str) -> str | None:
        """A program that runs another one."""
        if name == "command" and words[:1] and words[0].text in {"-v", "-V"}:
            return None
        options, own = WRAPPERS[name]
        call = read_call(options, words, to_operand=True)
        if isinstance(call, str):
            return call
        inner = list(call.rest[own:])
        if (
            not inner
            or not all(word.exact for word in call.rest[: own + 1])
            or inner[0].text == "cd"
        ):
            return "it is not known what it runs, and where"
        inner_name = program_name(inner[0].text)
        is_started = name != "command"
        return self._program(inner_name, inner[1:], where) or self._elsewhere(
            inner_name, where, is_started=is_started
        )

    def _git(self, words: Sequence[Word], where: str) -> str | None:
        before = read_call(GIT, words, to_operand=True)
        if isinstance(before, str):
            return before
        place = real_path(os.path.join(where, *before.values("-C")))
        texts = [word.text for word in before.rest]
        verb = next((v for v in (" ".join(texts[:2]), " ".join(texts[:1])) if v in GIT_VERBS), "")
        if not verb:
            return f"git {' '.join(texts[:1])} is not known to be read-only".replace("  ", " ")
        options = GIT_VERBS[verb]
        call = read_call(options, before.rest[len(verb.split()) :])
        if isinstance(call, str):
            return call
        for text in texts if options.shows else ():
            if can_pick_secret(text):
                return f"{text} may hold secrets"
        if self.is_changed:
            return "it is not known which repository it uses when it runs"
        return git_objection(place, self.trusted)

    def _check_added(self, allowed: Sequence[str], words: Sequence[Word], where: str) -> str | None:
        """A program that the user has added: these options, and these sub-commands if any are named."""
        texts = [word.text for word in words]
        for word in words:
            option = word.text.partition("=")[0]
            if word.text.startswith("-") and (not word.exact or option not in allowed):
                return f"the option {option}"
        verbs = [each.split() for each in allowed if not each.startswith("-")]
        # Before the sub-command nothing may stand: the value of an option could be taken for it.
        if verbs and not any(texts[: len(verb)] == verb for verb in verbs):
            return f"the sub-command {' '.join(texts[:1]) or '(none)'} is not in its table"
        # What stands behind a `=` may be a file too: `--json=FILE`, `input=FILE`.
        values = [Word(rest) for word in words for rest in _behind_equals(word.text)]
        return self._files([*words, *values], [where])


def _behind_equals(text: str) -> list[str]:
    return [text[found.end() :] for found in re.finditer("=", text)]


@lru_cache(16)
def _suspicious_entries(path: str, root: str) -> tuple[str, ...]:
    """The directories of `PATH` that lie in the work directory, or depend on where the shell stands."""
    return tuple(
        entry
        for entry in path.split(os.pathsep)
        if not os.path.isabs(entry)
        or (not _BIN.fullmatch(entry + "/") and is_below(real_path(entry), root))
    )


def program_name(text: str) -> str:
    """The name of a program that lies where programs of the system lie; another path stays as it is."""
    found = _BIN.match(text)
    return text[found.end() :] if found else text
