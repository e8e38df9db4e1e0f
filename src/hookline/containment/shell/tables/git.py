"""git: the verbs that only look."""

from __future__ import annotations

import re

import msgspec

from hookline.containment.shell.options import Call, Options, Program, more, only
from hookline.containment.shell.tables.checks import counted, plain_names

_LOOK = """
    -# -p -u --patch -s --no-patch --raw --shortstat --numstat --summary --name-only --name-status --oneline --graph
    --no-decorate --all --merges --no-merges --reverse --follow --first-parent --abbrev-commit --no-abbrev-commit
    --no-abbrev --no-color --cached --staged --check --full-index --binary -w -b --ignore-all-space
    --ignore-space-change --ignore-space-at-eol --ignore-cr-at-eol --ignore-blank-lines -R -a --text --minimal
    --patience --histogram --no-renames --rename-empty --exit-code --quiet -q --no-ext-diff --no-textconv --left-right
    --left-only --right-only --cherry-pick --cherry-mark --cherry --boundary --topo-order --date-order
    --author-date-order --walk-reflogs -g --merge --source --full-history --dense --sparse --simplify-merges
    --no-prefix --default-prefix --compact-summary --no-notes --no-mailmap --mailmap --use-mailmap
    --pickaxe-all --pickaxe-regex -i --regexp-ignore-case -E --extended-regexp -F --fixed-strings -P --perl-regexp
    --invert-grep --all-match --cc -c -m -t -r --no-index --merge-base --relative-date --parents --children
    --no-color-moved --no-expand-tabs --no-stat -W --function-context --full-diff --not --simplify-by-decoration -z
    --ita-invisible-in-index --indent-heuristic --no-indent-heuristic --ignore-case --root --no-relative
    --combined-all-paths --no-diff-merges --bisect --reflog --show-pulls --log-size --find-copies-harder
    --irreversible-delete --patch-with-stat --patch-with-raw --cumulative --no-rename-empty --base --ours --theirs
"""
_LOOK_TEXTS = """
    -n -S -G -l --max-count --skip --since --until --after --before --author --committer --grep --since-as-filter
    --grep-reflog --date --encoding --diff-filter --diff-algorithm --anchored --stat-width --stat-name-width
    --stat-count --stat-graph-width --inter-hunk-context --word-diff-regex --ws-error-highlight --src-prefix
    --dst-prefix --line-prefix --find-object --decorate-refs --decorate-refs-exclude --exclude --glob
    --output-indicator-new --output-indicator-old --output-indicator-context -I --ignore-matching-lines
"""
_LOOK_MAYBE = """
    -U -M -C -B -D -X --stat --decorate --branches --tags --remotes --color --color-words --word-diff --find-renames
    --find-copies --relative --no-walk --dirstat --notes --show-notes --pretty --format --abbrev --unified --submodule
    --ignore-submodules --color-moved --color-moved-ws --break-rewrites --min-parents --max-parents --diff-merges
    --expand-tabs --ancestry-path --show-linear-break --clear-decorations --no-min-parents --no-max-parents --count
"""
_LISTS = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")


def _no_signatures(call: Call) -> str | None:
    """Formats with %G and the like let another program check signatures."""
    checks = any(
        re.search(r"%[-+ ]?G", word.text) or (not word.exact and "%" in word.text)
        for word in call.words
    )
    return "it starts a program that checks signatures" if checks else None


def _looks(call: Call) -> str | None:
    """To show what changed in a repository inside, git starts itself there, and obeys that one's configuration."""
    ways = [value for name, value in call.options if name == "--submodule" and value]
    if not all(value.exact and value.text in {"short", "log"} for value in ways):
        return "it starts git in the repositories inside"
    return _no_signatures(call)


def _no_signatures_of_refs(call: Call) -> str | None:
    """Fields of references, to print or to sort by, can be signatures too."""
    checks = any("signature" in word.text for word in call.words)
    return "it starts a program that checks signatures" if checks else _no_signatures(call)


def _listed(call: Call) -> str | None:
    """A name without `--list` and its like creates a branch or a tag."""
    if call.operands and not call.begins_with(*_LISTS, "--show-current"):
        return f"it may create {call.texts[0]!r}"
    return _no_signatures_of_refs(call)


def _reflog(call: Call) -> str | None:
    """A word may be a verb of its own, and a pattern may become one."""
    changes = {"expire", "delete", "drop", "write"} & set(call.texts)
    if changes or not all(word.exact for word in call.operands):
        return "it may change the log"
    return _looks(call)


def _config(call: Call) -> str | None:
    """One name is a question, two are a setting, unless an option or the first of them says that it asks."""
    names = call.texts
    if call.early < len(call.options):
        return "what follows a name is a setting, whatever it looks like"
    asks = call.has("--get", "--get-all", "--get-regexp", "--list", "-l") and len(names) <= 2
    if not all(word.exact for word in call.words):
        return "a pattern may become several names"
    if names[:1] in (["get"], ["list"]):
        names = names[1:]
    elif not asks and names and "." not in names[0]:  # a verb of its own, such as `edit`
        return f"{names[0]!r} may be more than a question"
    if any(re.search("(?i)extraheader|token|passw|secret", name) for name in names):
        return "it may show a secret"
    said = call.options or call.operands
    return None if said and (asks or len(names) <= 1) else "it may set something"


def _remote(call: Call) -> str | None:
    """Of a remote that is named, it asks the remote itself, unless it is told not to."""
    return "it asks the remote" if call.operands and not call.begins_with("-n") else None


_HARMLESS_SETTING = re.compile(
    r"""
    (?i: color\.[a-z]+ ) = (?:never|always|auto|true|false) | (?i: core\.pager ) = (?:cat)?
    | (?i: pager\.[a-z]+ ) = (?:cat|false) | (?i: core\.quotepath | advice\.[a-z]+ ) = (?:on|off|true|false)
    | (?i: core\.fsmonitor | log\.showsignature | diff\.(?:noprefix|mnemonicprefix|renames) ) = (?:false)
    | (?i: core\.hookspath ) = /dev/null | (?i: core\.abbrev ) = [0-9]+ | (?i: log\.date ) = (?:iso|short|relative|raw)
    """,
    re.VERBOSE,
)


def _settings(call: Call) -> str | None:
    """What is set for one command: how things are shown, or that something is not started."""
    given = [value for name, value in call.options if name == "-c" and value]
    odd = next((v for v in given if not (v.exact and _HARMLESS_SETTING.fullmatch(v.text))), None)
    return f"it sets {odd.text}" if odd else None


_LOG = only(_LOOK, texts=_LOOK_TEXTS, takes="-L", maybe=_LOOK_MAYBE, check=_looks)
_SHORTLOG = more(
    msgspec.structs.replace(_LOG, texts=_LOG.texts - {"-n"}),
    "-n -e --numbered --email",
    maybe="--group",
)
_REFS = only(
    "--ignore-case",
    texts="--format --sort --count --exclude --points-at --contains --no-contains --merged --no-merged",
    maybe="--color --contains --no-contains --merged --no-merged",
    check=_no_signatures_of_refs,
)
_LISTING = only(
    """
    -l --list --no-column --no-color -i --ignore-case --show-current -a --all -r --remotes --remote -v -vv --verbose
    --no-abbrev
    """,
    texts="--sort --format --points-at --contains --no-contains --merged --no-merged",
    maybe="--column --color --abbrev --contains --no-contains --merged --no-merged",
    check=_listed,
)
_TAGS = only(
    "-l --list --no-column -i --ignore-case",
    texts="--sort --format --points-at --contains --no-contains --merged --no-merged",
    maybe="-n --column --color --contains --no-contains --merged --no-merged",
    check=_listed,
)
_GREP = only(
    """
    -# -i -n -l -L -c -w -v -h -H -E -F -P -G -o -q -r -p -W -I -a -z --ignore-case --line-number --name-only
    --files-with-matches --files-without-match --count --word-regexp --invert-match --extended-regexp --basic-regexp
    --fixed-strings --perl-regexp --only-matching --quiet --no-color --cached --untracked --no-index --heading --break
    --show-function --function-context --and --or --not --all-match --recursive --no-recursive --full-name --column
    --text --exclude-standard --no-exclude-standard --recurse-submodules --null
    """,
    texts="-e -A -B -C -m --context --after-context --before-context --max-depth --max-count --threads",
    maybe="--color",
    pattern="-e",
    check=counted("-A", "-B", "-C", "-m"),
)
_CONFIG = only(
    """
    --get --get-all --get-regexp --list -l --global --local --system --worktree --show-origin --show-scope --show-names
    --name-only --bool --int --bool-or-int --path -z --null --includes --no-includes --all --regexp
    """,
    texts="--default --type --value",
    check=_config,
)


def _plain(flags: str = "", *, texts: str = "", maybe: str = "", takes: str = "") -> Options:
    return only(flags, texts=texts, maybe=maybe, takes=takes)


def _lists(flags: str = "", *, texts: str = "", maybe: str = "", takes: str = "") -> Options:
    """A verb that shows names, never what is in the files."""
    return only(flags, texts=texts, maybe=maybe, takes=takes, shows=False)


_VERBS: dict[str, Options | Program] = {
    **dict.fromkeys(("log", "diff", "show", "whatchanged", "stash list", "range-diff"), _LOG),
    **dict.fromkeys(
        ("diff-tree", "diff-index", "diff-files"), more(_LOG, "-r --no-commit-id --always -v")
    ),
    "shortlog": _SHORTLOG,
    "status": _lists(
        """
        -s --short -b --branch --long -z --show-stash --ahead-behind --no-ahead-behind --renames
        --no-renames --no-column
        """,
        maybe="-u --untracked-files --porcelain --ignored --column --ignore-submodules -M --find-renames",
    ),
    "stash show": more(_LOG, "--include-untracked --only-untracked"),
    "rev-list": more(
        _LOG,
        "--objects --timestamp --header --no-object-names --date-order --no-commit-header",
        maybe="--disk-usage --filter",
    ),
    "reflog": msgspec.structs.replace(_LOG, check=_reflog),
    "blame": _plain(
        """
        -l -s -e -w -c -b -f -n -t -p --show-email --show-name --show-number --porcelain --line-porcelain --root
        --color-lines --color-by-age --first-parent --reverse --progress --no-progress
        """,
        texts="--date --since --ignore-rev",
        takes="-L --ignore-revs-file",
        maybe="-M -C --abbrev",
    ),
    "annotate": _plain("-l -w -t", takes="-L"),
    "rev-parse": _plain(
        """
        --verify -q --quiet --show-toplevel --git-dir --is-inside-work-tree --show-prefix --show-cdup
        --is-bare-repository --is-inside-git-dir --symbolic --symbolic-full-name --all --absolute-git-dir
        --git-common-dir --is-shallow-repository --show-superproject-working-tree --not --revs-only --no-revs --flags
        --no-flags
        """,
        texts="--default --git-path",
        maybe="""
        --abbrev-ref --short --branches --tags --remotes --glob --exclude --disambiguate --path-format
        --show-object-format --since --until
        """,
    ),
    "describe": _plain(
        "--tags --all --long --always --contains --exact-match --first-parent",
        texts="--match --exclude --candidates",
        maybe="--dirty --broken --abbrev",
    ),
    "ls-files": _lists(
        """
        -c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage --unmerged --killed
        --exclude-standard --error-unmatch --full-name --directory --no-empty-directory --eol --recurse-submodules
        --deduplicate --sparse
        """,
        texts="-x --exclude --exclude-per-directory --format",
        takes="-X --exclude-from",
        maybe="--abbrev",
    ),
    "ls-tree": _lists(
        "-r -t -d -l -z --name-only --name-status --full-name --full-tree --long --object-only",
        texts="--format",
        maybe="--abbrev",
    ),
    "cat-file": _plain("-t -s -p -e"),
    "merge-base": _plain("--is-ancestor --all -a --octopus --independent --fork-point"),
    "name-rev": _plain("--tags --name-only --all --always --undefined", texts="--refs --exclude"),
    "for-each-ref": _REFS,
    "show-ref": _plain(
        "--heads --tags --branches -d --dereference -s --verify -q --quiet --head --exists",
        maybe="--hash --abbrev",
    ),
    "show-branch": _plain(
        "-a --all -r --remotes --list --current --no-color --sha1-name --topo-order --date-order --sparse --topics",
        maybe="--color --more -g --reflog",
    ),
    "count-objects": _plain("-v --verbose -H --human-readable"),
    "check-ignore": _lists("-v --verbose -n --non-matching -q --quiet --no-index"),
    "check-attr": _lists("-a --all --cached"),
    "version": only("--build-options", operands=0),
    "help": only("-a --all -g --guides", operands=0),
    "grep": _GREP,
    "branch": _LISTING,
    "tag": _TAGS,
    "remote": only("-v --verbose", operands=0),
    "remote show": only("-n", operands=1, check=_remote),
    "archive": only("-l --list", needs="-l --list", operands=0),
    "symbolic-ref": only("-q --quiet --short", operands=1),
    "cherry": _lists("-v --verbose", maybe="--abbrev"),
    "var": only(operands=1, check=plain_names("GIT_(AUTHOR|COMMITTER)_IDENT|GIT_DEFAULT_BRANCH")),
    "add": only(
        "-n -v -A -u --dry-run --verbose --all --update", needs="-n --dry-run", shows=False
    ),
    "clean": only("-n -d -x -X --dry-run", texts="-e --exclude", needs="-n --dry-run", shows=False),
    "hash-object": _lists("--stdin --no-filters", texts="-t --path"),
    "apply": only(
        "--check --stat --numstat --summary -v --verbose",
        texts="-p --directory",
        needs="--check --stat --numstat --summary",
        shows=False,
    ),
    **dict.fromkeys(("bundle verify", "bundle list-heads", "sparse-checkout list"), _lists()),
    "fsck": _lists(
        """
        --full --strict --dangling --no-dangling --unreachable --no-reflogs --connectivity-only --progress
        --no-progress -v --verbose --root --tags --cache --name-objects
        """
    ),
    "rerere status": only(operands=0),
    "remote get-url": _plain("--all --push"),
    "worktree list": _plain("--porcelain -v --verbose -z"),
    "submodule": only(operands=0),
    "submodule status": _plain("--recursive --cached --quiet"),
    **dict.fromkeys(("notes list", "notes show", "bisect log"), _plain()),
    "lfs ls-files": _plain("-l --long -s --size -a --all -n --name-only"),
    "lfs version": _plain(),
    "lfs status": _plain("-p --porcelain -j --json"),
    "config": _CONFIG,
}

GIT = Program(
    only(
        "--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects",
        takes="-C",
        texts="-c",
        check=_settings,
    ),
    _VERBS,
)

GIT_VERBS = frozenset(verb.partition(" ")[0] for verb in _VERBS)
"""The first words of its verbs."""
