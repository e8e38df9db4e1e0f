"""git: the verbs that only look."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.containment.shell.options import Options, Program, only, operands_of
from hookline.containment.shell.words import Word

_LOOK = """
    -# -p -u --patch -s --no-patch --raw --stat --shortstat --numstat --summary --name-only --name-status --oneline
    --graph --decorate --no-decorate --all --branches --tags --remotes --merges --no-merges --reverse --follow
    --first-parent --abbrev-commit --no-abbrev-commit --color --no-color --color-words --word-diff --cached --staged
    --check --full-index --binary -w -b --ignore-all-space --ignore-space-change --ignore-blank-lines -R -a --text
    --minimal --patience --histogram --no-renames --find-renames -M --find-copies -C --relative --exit-code --quiet -q
    --no-ext-diff --no-textconv --show-signature --left-right --cherry-pick --cherry-mark --boundary --topo-order
    --date-order --author-date-order --walk-reflogs -g --merge --no-walk --source --full-history --dense --sparse
    --simplify-merges --ancestry-path --no-prefix --compact-summary --dirstat --no-notes --notes --no-mailmap --mailmap
    --use-mailmap --pickaxe-all --pickaxe-regex -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P
    --perl-regexp --invert-grep --all-match --cc -c -m -t --no-index --merge-base --relative-date --parents --children
    --pretty --format --date --abbrev --decorate-refs --unified --diff-filter --diff-algorithm --stat-width --encoding
    --no-color-moved --color-moved --ws-error-highlight --submodule --ignore-submodules --no-expand-tabs --no-stat
    --inter-hunk-context -W --function-context --full-diff --since --until --after --before --author --committer --grep
    --max-count --skip --glob --exclude --not --simplify-by-decoration -z --ita-invisible-in-index --indent-heuristic
"""
_LOOK_TAKES = "-n -U -S -G -L -O --max-count --skip --since --until --after --before --author --committer --grep --format"


def _look(more: str = "") -> Options:
    return only(_LOOK + more, takes=_LOOK_TAKES)


def _branch(words: Sequence[Word]) -> str | None:
    """A name without `--list` and its like creates a branch."""
    listing = {
        "-l",
        "--list",
        "--contains",
        "--no-contains",
        "--merged",
        "--no-merged",
        "--points-at",
        "--show-current",
    }
    names = operands_of(only(takes="--sort --format"), words)
    if names and not any(word.text in listing for word in words):
        return f"it may create {names[0].text!r}"
    return None


def _config(words: Sequence[Word]) -> str | None:
    """One name is a question, two are a setting."""
    asking = {"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"}
    names = [word for word in words if not word.start.startswith("-")]
    if names and names[0].text in {"get", "list"}:
        names = names[1:] if len(names) <= 2 else names
    if any(word.text in asking for word in words) and len(names) <= 2:
        return None
    return None if len(names) == 1 else "it may set something"


def _no_names(words: Sequence[Word]) -> str | None:
    names = [word for word in words if not word.start.startswith("-")]
    return f"{names[0].text!r} is more than a question" if names else None


def _listing(*first: str) -> Options:
    """The first word must be one of these verbs."""

    def check(words: Sequence[Word]) -> str | None:
        if not words or words[0].text not in first:
            return "it changes something"
        return None

    return only(
        "-v --verbose -# -p --stat --oneline --name-only --name-status --porcelain", check=check
    )


GIT = Program(
    only(
        "--no-pager -P --version --help --no-optional-locks --bare --literal-pathspecs --no-replace-objects",
        takes="-C",
    ),
    {
        "status": only(
            "-s --short -b --branch -u -uno -uall -unormal --untracked-files --porcelain --long -v --verbose -z"
            " --ignored --show-stash --ahead-behind --no-ahead-behind --renames --no-renames --column --no-column"
        ),
        "log": _look(),
        "diff": _look(),
        "show": _look(),
        "whatchanged": _look(),
        "shortlog": _look(" -s -n -e -sn -sne -ns -nse --summary --numbered --email --group"),
        "reflog": only(
            "-# --oneline --all --date --no-abbrev --pretty --format -p --stat",
            takes="-n",
            check=lambda words: (
                "it changes the log"
                if any(w.text in {"expire", "delete", "drop", "write"} for w in words)
                else None
            ),
        ),
        "blame": only(
            "-l -s -e -w -c -b -f -n -t -p --show-email --show-name --show-number --porcelain --line-porcelain --date -M"
            " -C --root --abbrev --since --color-lines --color-by-age --first-parent --reverse",
            takes="-L --ignore-rev --ignore-revs-file",
        ),
        "annotate": only("-l -w -t", takes="-L"),
        "rev-parse": only(
            "--abbrev-ref --short --verify -q --quiet --show-toplevel --git-dir --is-inside-work-tree --show-prefix --show-cdup"
            " --is-bare-repository --is-inside-git-dir --symbolic --symbolic-full-name --all --branches --tags --remotes"
            " --absolute-git-dir --git-common-dir --is-shallow-repository --show-superproject-working-tree --verify"
        ),
        "rev-list": _look(
            " --count --objects --disk-usage --timestamp --left-only --right-only --min-parents --max-parents"
        ),
        "describe": only(
            "--tags --all --long --always --dirty --abbrev --contains --exact-match --first-parent --match --exclude --candidates --broken"
        ),
        "ls-files": only(
            "-c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged --killed --exclude-standard"
            " --error-unmatch --full-name --directory --no-empty-directory --exclude --eol --abbrev --recurse-submodules --format --deduplicate",
            takes="-x -X",
        ),
        "ls-tree": only(
            "-r -t -d -l -z --name-only --name-status --full-name --full-tree --long --abbrev --object-only --format"
        ),
        "cat-file": only("-t -s -p -e blob commit tree tag"),
        "merge-base": only("--is-ancestor --all -a --octopus --independent --fork-point"),
        "name-rev": only("--tags --name-only --all --refs --always"),
        "for-each-ref": only(
            "--format --sort --count --contains --no-contains --merged --no-merged --points-at --color",
            takes="--format --sort --count",
        ),
        "show-ref": only(
            "--heads --tags --branches -d --dereference -s --hash --abbrev --verify -q --quiet --head"
        ),
        "show-branch": only(
            "-a --all -r --remotes --list --current --no-color --color --topo-order --sha1-name --no-name"
        ),
        "count-objects": only("-v --verbose -H --human-readable"),
        "check-ignore": only("-v --verbose -n --non-matching -q --quiet --no-index"),
        "check-attr": only("-a --all --cached"),
        "version": only("--build-options", operands=0),
        "help": only("-a --all -g --guides"),
        "grep": only(
            "-# -i -n -l -L -c -w -v -h -H -E -F -P -G -o -q -r -p -W -I -a -z --ignore-case --line-number --files-with-matches"
            " --name-only --files-without-match --count --word-regexp --invert-match --extended-regexp --fixed-strings"
            " --perl-regexp --only-matching --quiet --color --no-color --cached --untracked --no-index --heading --break"
            " --show-function --function-context --and --or --not --all-match --max-depth --recursive --no-recursive --full-name --column --text"
            " --context --after-context --before-context --exclude-standard --recurse-submodules --max-count",
            takes="-e -A -B -C -m",
        ),
        "branch": only(
            "-a --all -r --remotes -v -vv --verbose -l --list --show-current --contains --no-contains --merged --no-merged"
            " --points-at --sort --format --column --no-column --color --no-color --abbrev --no-abbrev -i --ignore-case",
            takes="--sort --format",
            check=_branch,
        ),
        "tag": only(
            "-l --list -n --sort --format --contains --no-contains --merged --no-merged --points-at --column --color -i --ignore-case -#",
            check=lambda words: (
                None
                if not words or any(w.text in {"-l", "--list"} for w in words)
                else _no_names(words)
            ),
        ),
        "remote": only(
            "-v --verbose",
            check=lambda words: None if words and words[0].text == "get-url" else _no_names(words),
        ),
        "remote get-url": only("--all --push"),
        "stash list": _look(),
        "stash show": _look(" --include-untracked --only-untracked"),
        "worktree list": only("--porcelain -v --verbose -z"),
        "submodule status": only("--recursive --cached --quiet"),
        "submodule": only("", operands=0),
        "notes list": only(),
        "notes show": only(),
        "bisect log": only(),
        "lfs ls-files": only("-l --long -s --size -a --all -n --name-only"),
        "lfs status": only("-p --porcelain -j --json"),
        "config": only(
            "--get --get-all --get-regexp --list -l --global --local --system --worktree --show-origin --show-scope --name-only"
            " --type --bool --int --bool-or-int --path -z --null --includes --no-includes --default --all --regexp",
            takes="--default --type",
            check=_config,
        ),
    },
)
