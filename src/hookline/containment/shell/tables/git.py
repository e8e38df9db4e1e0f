"""git: the verbs that only look."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Options, Program, only, operands_of
from hookline.containment.shell.words import Word

_LOOK = """
    -# -p -u --patch -s --no-patch --raw --stat --shortstat --numstat --summary --name-only --name-status --oneline
    --graph --decorate --no-decorate --all --branches --tags --remotes --merges --no-merges --reverse --follow
    --first-parent --abbrev-commit --no-abbrev-commit --color --no-color --color-words --word-diff --cached --staged
    --check --full-index --binary -w -b --ignore-all-space --ignore-space-change --ignore-blank-lines -R -a --text
    --minimal --patience --histogram --no-renames --find-renames -M --find-copies -C --relative --exit-code --quiet
    -q --no-ext-diff --no-textconv --left-right --cherry-pick --cherry-mark --cherry --boundary --topo-order
    --date-order --author-date-order --walk-reflogs -g --merge --no-walk --source --full-history --dense --sparse
    --simplify-merges --ancestry-path --no-prefix --compact-summary --dirstat --no-notes --notes --no-mailmap
    --mailmap --use-mailmap --pickaxe-all --pickaxe-regex -i --regexp-ignore-case -E --extended-regexp -F
    --fixed-strings -P --perl-regexp --invert-grep --all-match --cc -c -m -t --no-index --merge-base --relative-date
    --parents --children --pretty --format --date --abbrev --decorate-refs --unified --diff-filter --diff-algorithm
    --stat-width --encoding --no-color-moved --color-moved --ws-error-highlight --submodule --ignore-submodules
    --no-expand-tabs --no-stat --inter-hunk-context -W --function-context --full-diff --since --until --after --before
    --author --committer --grep --max-count --skip --glob --exclude --not --simplify-by-decoration -z
    --ita-invisible-in-index --indent-heuristic --no-indent-heuristic --ignore-case --root
"""
_LOOK_TAKES = """
    -n -U -S -G -L --max-count --skip --since --until --after --before --author --committer --grep --format
"""
_LISTS = frozenset(
    "-l --list --contains --no-contains --merged --no-merged --points-at --show-current".split()
)


def _look(more: str = "") -> Options:
    return only(_LOOK + more, takes=_LOOK_TAKES, check=_no_signatures)


def _no_signatures(words: Sequence[Word]) -> str | None:
    """Formats with %G and the like let another program check signatures."""
    checks = any(
        re.search(r"%[-+ ]?G", word.text) or (not word.exact and "%" in word.text) for word in words
    )
    return "it starts a program that checks signatures" if checks else None


def _no_signatures_of_refs(words: Sequence[Word]) -> str | None:
    """Fields of references, to print or to sort by, can be signatures too."""
    checks = any("signature" in word.text for word in words)
    return "it starts a program that checks signatures" if checks else _no_signatures(words)


def _names(words: Sequence[Word]) -> list[str]:
    return [word.text for word in words if not word.start.startswith("-")]


def _listed(words: Sequence[Word]) -> str | None:
    """A name without `--list` and its like creates a branch or a tag."""
    names = operands_of(only(takes="--sort --format"), words)
    if names and any(word.text in ("--", "--sort", "--format") for word in words):
        return "what looks like `--list` may be a value, or a name"
    if names and not any(word.text.partition("=")[0] in _LISTS for word in words):
        return f"it may create {names[0].text!r}"
    return _no_signatures_of_refs(words)


def _no_names(words: Sequence[Word]) -> str | None:
    names = _names(words)
    return f"{names[0]!r} is more than a question" if names else None


def _reflog(words: Sequence[Word]) -> str | None:
    """A word may be a verb of its own, and a pattern may become one."""
    changes = {"expire", "delete", "drop", "write"} & set(_names(words))
    if changes or not all(word.exact for word in words):
        return "it may change the log"
    return _no_signatures(words)


def _config(words: Sequence[Word]) -> str | None:
    """One name is a question, two are a setting, unless an option or the first of them says that it asks."""
    asking = {"--get", "--get-all", "--get-regexp", "--list", "-l"}
    names = _names(words)
    if any(word.text == "--" for word in words):
        return "what follows `--` is a setting, whatever it looks like"
    if names[:1] in (["get"], ["list"]):
        names = names[1:]
    asks = any(word.text in asking for word in words) and len(names) <= 2
    if not all(word.exact for word in words):
        return "a pattern may become several names"
    if any(re.search("(?i)extraheader|token|passw|secret", name) for name in names):
        return "it may show a secret"
    return None if words and (asks or len(names) <= 1) else "it may set something"


_VERBS: dict[str, Options] = {
    **dict.fromkeys(("log", "diff", "show", "whatchanged", "stash list"), _look()),
    "status": only(
        """
        -s --short -b --branch -u -uno -uall -unormal --untracked-files --porcelain --long -v --verbose -z --ignored
        --show-stash --ahead-behind --no-ahead-behind --renames --no-renames --column --no-column
        """
    ),
    "shortlog": _look(" -s -n -e --summary --numbered --email --group"),
    "stash show": _look(" --include-untracked --only-untracked"),
    "rev-list": _look(" --count --objects --disk-usage --timestamp --left-only --right-only"),
    "reflog": only(
        "-# --oneline --all --date --no-abbrev --pretty --format -p --stat",
        takes="-n",
        check=_reflog,
    ),
    "blame": only(
        """
        -l -s -e -w -c -b -f -n -t -p --show-email --show-name --show-number --porcelain --line-porcelain --date -M -C
        --root --abbrev --since --color-lines --color-by-age --first-parent --reverse
        """,
        takes="-L --ignore-rev --ignore-revs-file",
    ),
    "annotate": only("-l -w -t", takes="-L"),
    "rev-parse": only(
        """
        --abbrev-ref --short --verify -q --quiet --show-toplevel --git-dir --is-inside-work-tree --show-prefix
        --show-cdup --is-bare-repository --is-inside-git-dir --symbolic --symbolic-full-name --all --branches --tags
        --remotes --absolute-git-dir --git-common-dir --is-shallow-repository --show-superproject-working-tree
        """
    ),
    "describe": only(
        """
        --tags --all --long --always --dirty --abbrev --contains --exact-match --first-parent --match --exclude
        --candidates --broken
        """
    ),
    "ls-files": only(
        """
        -c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged --killed
        --exclude-standard --error-unmatch --full-name --directory --no-empty-directory --exclude --eol --abbrev
        --recurse-submodules --format --deduplicate
        """,
        takes="-x -X",
    ),
    "ls-tree": only(
        "-r -t -d -l -z --name-only --name-status --full-name --full-tree --long --abbrev --object-only --format"
    ),
    "cat-file": only("-t -s -p -e"),
    "merge-base": only("--is-ancestor --all -a --octopus --independent --fork-point"),
    "name-rev": only("--tags --name-only --all --refs --always"),
    "for-each-ref": only(
        "--contains --no-contains --merged --no-merged --points-at --color",
        takes="--format --sort --count",
        check=_no_signatures_of_refs,
    ),
    "show-ref": only(
        "--heads --tags --branches -d --dereference -s --hash --abbrev --verify -q --quiet --head"
    ),
    "show-branch": only("-a --all -r --remotes --list --current --no-color --color --sha1-name"),
    "count-objects": only("-v --verbose -H --human-readable"),
    "check-ignore": only("-v --verbose -n --non-matching -q --quiet --no-index"),
    "check-attr": only("-a --all --cached"),
    "version": only("--build-options", operands=0),
    "help": only("-a --all -g --guides", operands=0),
    "grep": only(
        """
        -# -i -n -l -L -c -w -v -h -H -E -F -P -G -o -q -r -p -W -I -a -z --ignore-case --line-number --name-only
        --files-with-matches --files-without-match --count --word-regexp --invert-match --extended-regexp
        --fixed-strings --perl-regexp --only-matching --quiet --color --no-color --cached --untracked --no-index
        --heading --break --show-function --function-context --and --or --not --all-match --max-depth --recursive
        --no-recursive --full-name --column --text --context --after-context --before-context --exclude-standard
        --recurse-submodules --max-count
        """,
        takes="-e -A -B -C -m",
    ),
    "branch": only(
        """
        -a --all -r --remotes -v -vv --verbose -l --list --show-current --contains --no-contains --merged --no-merged
        --points-at --column --no-column --color --no-color --abbrev --no-abbrev -i --ignore-case
        """,
        takes="--sort --format",
        check=_listed,
    ),
    "tag": only(
        """
        -l --list -n --contains --no-contains --merged --no-merged --points-at --column --color -i --ignore-case -#
        """,
        takes="--sort --format",
        check=_listed,
    ),
    "remote": only("-v --verbose", check=_no_names),
    "remote get-url": only("--all --push"),
    "worktree list": only("--porcelain -v --verbose -z"),
    "submodule": only(operands=0),
    "submodule status": only("--recursive --cached --quiet"),
    **dict.fromkeys(("notes list", "notes show", "bisect log"), only()),
    "lfs ls-files": only("-l --long -s --size -a --all -n --name-only"),
    "lfs status": only("-p --porcelain -j --json"),
    "config": only(
        """
        --get --get-all --get-regexp --list -l --global --local --system --worktree --show-origin --show-scope
        --name-only --bool --int --bool-or-int --path -z --null --includes --no-includes --all --regexp
        """,
        takes="--default --type",
        check=_config,
    ),
}

GIT = Program(
    only("--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects", takes="-C"),
    _VERBS,
)
