"""git: the sub-commands that only read, with the options that neither write nor start a program."""

from __future__ import annotations

import re

import msgspec

from hookline.containment.shell.options import Call, OptionTable, only

_LOOK = """
    -# -p -u --patch -s --no-patch --raw --shortstat --numstat --summary --name-only --name-status --oneline --graph
    --no-decorate --all --merges --no-merges --reverse --follow --first-parent --abbrev-commit --no-abbrev-commit
    --no-abbrev --no-color --cached --staged --check --full-index --binary -w -b --ignore-all-space
    --ignore-space-change --ignore-space-at-eol --ignore-blank-lines -R -a --text --minimal --patience --histogram
    --no-renames --exit-code --quiet -q --no-ext-diff --no-textconv --left-right --left-only --right-only
    --cherry-pick --cherry-mark --cherry --boundary --topo-order --date-order --author-date-order --walk-reflogs -g
    --merge --source --full-history --dense --sparse --simplify-merges --no-prefix --compact-summary --no-notes
    --no-mailmap --mailmap -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp
    --invert-grep --all-match --cc -c -m -t -r --merge-base --relative-date --parents --children -W
    --function-context --full-diff --not --simplify-by-decoration -z --root --reflog --find-copies-harder
    --pickaxe-all --pickaxe-regex --no-expand-tabs --no-stat --irreversible-delete --objects --no-commit-id
"""
_LOOK_TEXTS = """
    -n -S -G -l --max-count --skip --since --until --after --before --author --committer --grep --date --encoding
    --diff-filter --diff-algorithm --stat-width --stat-name-width --stat-count --inter-hunk-context
    --word-diff-regex --find-object --exclude --glob -I --ignore-matching-lines -L
"""
_LOOK_MAYBE = """
    -U -M -C -B -D -X --stat --decorate --branches --tags --remotes --color --color-words --word-diff --find-renames
    --find-copies --relative --no-walk --dirstat --pretty --format --abbrev --unified --color-moved --count
    --ancestry-path --min-parents --max-parents --diff-merges --ignore-submodules
"""
_LISTS = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")


def _no_signatures(call: Call) -> str | None:
    """Formats with %G, and fields of references, let another program check signatures."""
    is_checked = any(
        re.search(r"%[-+ ]?G|signature", word.text, re.IGNORECASE) for word in call.words
    )
    return "it starts a program that checks signatures" if is_checked else None


def _is_outside(text: str) -> bool:
    return text.startswith(("/", "~")) or ".." in text.split("/")


def _no_outside(call: Call) -> str | None:
    """Given a path outside of the repository, `git diff` compares files like `diff`."""
    far = next((text for text in call.texts if _is_outside(text)), None)
    return f"{far} may be outside of the repository" if far else _no_signatures(call)


def _check_list(call: Call) -> str | None:
    """A name without `--list` and its like creates a branch or a tag."""
    is_list = any(name in _LISTS for name, _ in call.options[: call.early])
    if call.operands and not is_list:
        return f"it may create {call.texts[0]!r}"
    return _no_signatures(call)


def _reflog(call: Call) -> str | None:
    """A word may be a sub-command."""
    if {"expire", "delete", "drop", "write"} & set(call.texts):
        return "it may change the log"
    return _no_outside(call)


_LOG = only(_LOOK, texts=_LOOK_TEXTS, maybe=_LOOK_MAYBE, check=_no_outside)
_REFS = only(
    "--ignore-case",
    texts="--format --sort --count --exclude --points-at --contains --no-contains --merged --no-merged",
    maybe="--color",
    shows=False,
    check=_no_signatures,
)
_LISTING = only(
    """
    -l --list --no-column --no-color -i --ignore-case --show-current -a --all -r --remotes --remote -v -vv --verbose
    --no-abbrev
    """,
    texts="--sort --format --points-at",
    maybe="--column --color --abbrev --contains --no-contains --merged --no-merged -n",
    shows=False,
    check=_check_list,
)
_NOTHING = only(operands=0, shows=False)

GIT = only("--no-pager -P --no-optional-locks --literal-pathspecs", takes="-C")
"""What may stand before the sub-command. `-c` sets anything, and is not here."""

GIT_VERBS: dict[str, OptionTable] = {
    **dict.fromkeys(
        ("log", "diff", "show", "whatchanged", "rev-list", "diff-tree", "diff-index", "stash list"),
        _LOG,
    ),
    "stash show": _LOG,
    "shortlog": msgspec.structs.replace(
        _LOG,
        flags=_LOG.flags | {"-n", "-e", "--numbered", "--email"},
        texts=_LOG.texts - {"-n"},
    ),
    "reflog": msgspec.structs.replace(_LOG, check=_reflog),
    "status": only(
        """
        -s --short -b --branch --long -z --show-stash --ahead-behind --no-ahead-behind --renames --no-renames
        --no-column
        """,
        maybe="-u --untracked-files --porcelain --ignored --column --ignore-submodules -M --find-renames",
        shows=False,
    ),
    "rev-parse": only(
        """
        --verify -q --quiet --show-toplevel --git-dir --is-inside-work-tree --show-prefix --show-cdup
        --is-bare-repository --symbolic --symbolic-full-name --all --absolute-git-dir --git-common-dir
        """,
        maybe="--abbrev-ref --short --branches --tags --remotes",
        shows=False,
    ),
    "describe": only(
        "--tags --all --long --always --contains --exact-match --first-parent",
        texts="--match --exclude --candidates",
        maybe="--abbrev",
        shows=False,
    ),
    "ls-files": only(
        """
        -c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged --killed
        --exclude-standard --error-unmatch --full-name --directory --no-empty-directory --deduplicate
        """,
        texts="-x --exclude",
        shows=False,
    ),
    "ls-tree": only(
        "-d -r -t -l -z --name-only --name-status --full-name --full-tree --long --object-only",
        maybe="--abbrev",
        shows=False,
    ),
    "cat-file": only("-t -s -p -e"),
    "merge-base": only("--is-ancestor --all -a --octopus --independent --fork-point", shows=False),
    "name-rev": only("--tags --name-only --all --always", shows=False),
    "for-each-ref": _REFS,
    "show-ref": only(
        "--heads --tags -d --dereference -s --verify -q --quiet --head",
        maybe="--hash --abbrev",
        shows=False,
    ),
    "count-objects": only("-v --verbose -H --human-readable", shows=False),
    "check-ignore": only("-v --verbose -n --non-matching -q --quiet --no-index", shows=False),
    "branch": _LISTING,
    "tag": _LISTING,
    "remote": only("-v --verbose", operands=0, shows=False),
    "worktree list": only("--porcelain -v --verbose -z", operands=0, shows=False),
    **dict.fromkeys(("version", "show-branch", "notes list"), _NOTHING),
}
"""Not `blame` and `grep`: they read files of the work tree through directories that are links. To `diff` and `status`
these files are removed."""
