"""The programs that only read, with their harmless options.

Options that write, run something or use the network are in no table, nor are those that follow links into other places
(`grep -R`, `rg -L`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from hookline.containment.shell.options import Call, Check, OptionTable, only
from hookline.containment.shell.sed_awk import AWK, SED

_GNU = " --help --version"
_PLAIN_PS = re.compile(
    r"(?:|a|x|u|ax|aux|axu|auxw|auxww|auxf|axjf|-a|-e|-f|-ef|-eF|-efww|-A|-Af|-aux|-u root|-f?p [0-9]+|-f -p [0-9]+)"
    r"(?: --sort=[\w,+-]+| --forest)*"
)
_PLAIN_SET = frozenset("-e -u -x -eu -ex -eux -o -eo -euo -euxo pipefail errexit nounset".split())
_PLAIN_VARIABLES = frozenset("HOME PWD USER LOGNAME SHELL PATH LANG TERM".split())
_JQ_LOOKS_AWAY = re.compile(r"env|import|include|modulemeta|__prog|input_filename", re.IGNORECASE)


def _check_numbers(*names: str) -> Check:
    """Options that take a number; what is none would be the pattern, or the name of a file, to other versions."""

    def check(call: Call) -> str | None:
        odd = next((text for text in call.values(*names) if not text.isdigit()), None)
        return f"{odd!r} is no number" if odd is not None else None

    return check


def _date(call: Call) -> str | None:
    """A word that is neither a format nor the value of an option sets the clock."""
    odd = next((text for text in call.texts if not text.startswith("+")), None)
    return f"{odd!r} may set the clock" if odd else None


def _test(call: Call) -> str | None:
    """`-v` and `-R` look at a variable, and run what its index says: `test -v 'a[$(id)]'`."""
    return "it may run a program by its name" if {"-v", "-R"} & set(call.texts) else None


def _printf(call: Call) -> str | None:
    """`-v` sets a variable, and so does `%n` in the format: `printf %n PATH`."""
    texts = call.texts[1:] if call.texts[:1] == ["--"] else call.texts
    if not all(word.exact for word in call.operands[:2]):
        return "its format is not known"
    if texts and texts[0].startswith("-"):
        return f"the option {texts[0]}"
    form = texts[0].replace("%%", "") if texts else ""
    return "%n sets a variable" if re.search(r"%[^A-Za-z%]*[hlLjztq]*n", form) else None


def _ps(call: Call) -> str | None:
    """Only these spellings: what ps cannot read as options of one kind (`-aue`) it reads again as another."""
    is_plain = _PLAIN_PS.fullmatch("\t".join(call.texts).replace(" ", "?").replace("\t", " "))
    return None if is_plain else "it may show the environments of processes"


def _set(call: Call) -> str | None:
    """Alone it prints all variables."""
    is_plain = bool(call.texts) and all(text in _PLAIN_SET for text in call.texts)
    return None if is_plain else "it changes how the shell works, or prints all of its variables"


def _printenv(call: Call) -> str | None:
    is_plain = bool(call.texts) and all(text in _PLAIN_VARIABLES for text in call.texts)
    return None if is_plain else "the environment often holds secrets"


def _jq(call: Call) -> str | None:
    """Filters cannot write, but some look at the environment or at other files."""
    found = next((f for word in call.words if (f := _JQ_LOOKS_AWAY.search(word.text))), None)
    return f"its filter may use {found[0]}" if found else None


def _no_response_file(call: Call) -> str | None:
    """`@file` holds more options."""
    is_taken = any(word.text.startswith("@") for word in call.words)
    return "it takes options from a file" if is_taken else None


# --- find ---------------------------------------------------------------------------------------------

PICKING = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname".split()
)
"""Tests of names, each with a pattern."""
_TESTS = PICKING | frozenset(
    """
    -regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -newermt -newerct -newerat -anewer
    -cnewer -user -group -uid -gid -perm -links -inum -samefile -maxdepth -mindepth -printf -used -fstype
    -empty -nouser -nogroup -readable -writable -executable -depth -d -xdev -mount -prune -quit -print -print0 -ls
    -follow -daystart -noleaf -not -a -and -o -or -true -false -L -H -P -E -x -s -ignore_readdir_race -warn -nowarn
    -O1 -O2 -O3
    """.split()
)
_TEST_VALUE = re.compile(r"-[0-9]+[a-zA-Z]?|-[ugoa]*[=+-][rwxXst]+(,[ugoa]*[=+-][rwxXst]+)*")
"""Values that begin like options: `-7`, `-10k`, `-u=rw`. No action is spelled so."""


def _find(call: Call) -> str | None:
    """`-exec`, `-delete`, `-fprint` and whatever else is not a test: none of them is in a table."""
    options = (text for text in call.texts if text.startswith("-") and text not in _TESTS)
    odd = next((text for text in options if not _TEST_VALUE.fullmatch(text)), None)
    return f"the action {odd}" if odd else None


_BEFORE_ROOTS = re.compile(r"--|-[HLPEXdsx]+|-O.*|-D")


def roots_of(words: Sequence[str]) -> list[str]:
    """Where a search begins."""
    own = list(words)
    while own and _BEFORE_ROOTS.fullmatch(own[0]):
        own = own[2 if own[0] == "-D" else 1 :]
    return list(takewhile(lambda word: not word.startswith(("-", "(", "!")), own))


# --- the tables --------------------------------------------------------------------------------------


def _text(flags: str = "", *, texts: str = "", takes: str = "", maybe: str = "") -> OptionTable:
    """A program that shows files, none of whose options does harm. Those that are not listed ask all the same."""
    return only(flags + _GNU, texts=texts, takes=takes, maybe=maybe)


def _names(
    flags: str = "", *, texts: str = "", maybe: str = "", operands: int | None = None
) -> OptionTable:
    """The same of a program that says which files there are and what they are like, not what is in them."""
    return only(flags + _GNU, texts=texts, maybe=maybe, operands=operands, shows=False)


def _words(check: Check | None = None) -> OptionTable:
    """A program whose words are all printed or compared."""
    return only(plain_words=True, shows=False, check=check)


_GREP = only(
    """
    -# -E -F -G -P -i -y -v -w -x -z -s -c -l -L -q -h -H -n -b -T -Z -u -U -a -I -r -o -V --extended-regexp
    --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match --word-regexp
    --line-regexp --null-data --no-messages --count --files-with-matches --files-without-match --quiet --silent
    --no-filename --with-filename --line-number --byte-offset --initial-tab --null --binary --text --recursive
    --only-matching --line-buffered --no-group-separator
    """
    + _GNU,
    texts="""
    -e -m -A -B -C -D --regexp --max-count --after-context --before-context --context --label --binary-files
    --devices --group-separator --exclude --exclude-dir --include
    """,
    takes="-f --file --exclude-from",
    maybe="--color --colour",
    pattern="-e --regexp -f --file",
    check=_check_numbers("-A", "-B", "-C", "-m"),
)
_RG = only(
    """
    -b -s -c -F -. -i -v -n -x -U -I -N -0 -o -P -p -q -S -a -u -H -w -l -h -V --byte-offset --case-sensitive --column
    --count --count-matches --crlf --files --files-with-matches --files-without-match --fixed-strings --heading
    --hidden --ignore-case --invert-match --json --line-buffered --line-number --line-regexp --multiline
    --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs --no-line-number
    --no-messages --no-hidden --no-column --null --only-matching --passthru --pcre2 --pretty --quiet --smart-case
    --stats --text --trim --type-list --unrestricted --vimgrep --with-filename --word-regexp --no-follow
    """
    + _GNU,
    texts="""
    -A -B -C -E -e -M -m -r -j -t -T -d -g --after-context --before-context --context --color --colors
    --context-separator --encoding --engine --max-columns --max-count --max-depth --maxdepth --max-filesize --regexp
    --replace --sort --sortr --threads --type --type-not --glob --iglob
    """,
    takes="-f --file",
    pattern="-e --regexp -f --file --files --type-list",
)
_FD = only(
    """
    -H -I -u -s -i -g -F -a -l -L -p -0 -1 -q -h -V --hidden --no-ignore --unrestricted --no-ignore-vcs
    --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --list-details --follow --full-path
    --print0 --quiet --show-errors --one-file-system --prune --no-hidden
    """
    + _GNU,
    texts="""
    -d -t -e -E -c -j -S --max-depth --min-depth --exact-depth --type --extension --exclude --color --threads --size
    --changed-within --changed-before --max-results
    """,
    pattern="",
    shows=False,
)
_LS = _names(
    """
    -1 -a -A -b -B -c -C -d -D -e -f -F -g -G -h -H -i -k -l -L -m -n -N -o -O -p -P -q -Q -r -R -s -S -t -u -U -v -W
    -x -X -Z -@ -% --all --almost-all --author --escape --ignore-backups --directory --file-type --full-time
    --group-directories-first --no-group --human-readable --si --dereference --inode --kibibytes --numeric-uid-gid
    --literal --quote-name --reverse --recursive --size --context --zero
    """,
    texts="""
    -I -T -w --block-size --format --hide --indicator-style --ignore --quoting-style --sort --time --time-style
    --tabsize --width
    """,
    maybe="--color --hyperlink --classify",
)
_DIFF = _text(
    """
    -q -s -c -u -e -n -y -p -t -T -N -i -E -Z -b -w -B -a -d --normal --brief --report-identical-files --ed --rcs
    --side-by-side --left-column --suppress-common-lines --show-c-function --expand-tabs --initial-tab --new-file
    --ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space
    --ignore-blank-lines --text --strip-trailing-cr --minimal
    """,
    texts="-C -U -W -F -I -L --width --label --tabsize --ignore-matching-lines",
    maybe="--context --unified --color",
)
_SORT = only(
    """
    -b -d -f -g -i -M -h -n -R -r -V -c -C -m -s -u -z --ignore-leading-blanks --dictionary-order --ignore-case
    --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort
    --reverse --version-sort --merge --stable --unique --zero-terminated --debug
    """
    + _GNU,
    texts="-k -t -S --key --field-separator --buffer-size --parallel --sort",
    maybe="--check",
)
_TREE = only(
    """
    -a -d -f -x -q -N -Q -p -u -g -s -h -D -F -v -t -c -U -r -i -A -S -n -C -X -J --gitignore --ignore-case
    --matchdirs --prune --noreport --si --du --inodes --device --dirsfirst --filesfirst
    """
    + _GNU,
    texts="-L -P -I --charset --filelimit --timefmt --sort",
    glues=False,
    shows=False,
)  # -o writes, and `-Lo` is `-L` and `-o`
_FILE = only(
    """
    -b -E -h -i -I -k -l -L -N -n -r -s -v -0 --brief --extension --no-dereference --mime --mime-type --mime-encoding
    --keep-going --dereference --no-pad --no-buffer --raw --print0
    """
    + _GNU,
    texts="-e -F -P --exclude --separator --parameter",
)  # -C writes, -z starts other programs, -f prints what a file holds
_STAT = _names(
    "-L -f -t -x -s -l -n -q -r -F --dereference --file-system --terse",
    texts="-c --format --printf --cached",
)
_DU = only(
    """
    -0 -a -A -b -c -D -g -h -H -k -l -L -m -P -s -S -x --null --all --apparent-size --bytes --total --dereference-args
    --human-readable --inodes --count-links --dereference --no-dereference --separate-dirs --si --summarize
    --one-file-system
    """
    + _GNU,
    texts="-B -d -I -t --block-size --max-depth --threshold --time-style --exclude",
    maybe="--time",
    shows=False,
)  # --files0-from prints what a file holds
_SUM = _text("-b -t -z --binary --text --zero --tag")  # -c reads the files that a file names

PROGRAMS: dict[str, OptionTable] = {
    # texts
    "cat": _text(
        """
        -A -b -e -E -l -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank
        --show-tabs --show-nonprinting
        """
    ),
    "head": _text(
        "-# -q -v -z --quiet --silent --verbose --zero-terminated", texts="-c -n --bytes --lines"
    ),
    "tail": _text(
        "-# -f -F -q -v -z -r --retry --quiet --silent --verbose --zero-terminated",
        texts="-c -n -s --bytes --lines --sleep-interval --pid",
        maybe="--follow",
    ),
    "wc": _text(
        "-c -m -l -L -w --bytes --chars --lines --max-line-length --words", texts="--total"
    ),
    "cut": _text(
        "-n -s -w -z --only-delimited --complement --zero-terminated",
        texts="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
    ),
    "tr": _names("-c -C -d -s -t -u --complement --delete --squeeze-repeats --truncate-set1"),
    "sort": _SORT,
    "uniq": only(
        "-# -c -d -D -i -u -z --count --repeated --ignore-case --unique --zero-terminated" + _GNU,
        texts="-f -s -w --skip-fields --skip-chars --check-chars",
        maybe="--all-repeated --group",
        operands=1,
    ),
    "diff": _DIFF,
    "cmp": _text(
        "-b -h -l -s -x --print-bytes --verbose --quiet --silent",
        texts="-i -n --ignore-initial --bytes",
    ),
    "paste": _text("-s -z --serial --zero-terminated", texts="-d --delimiters"),
    "nl": _text(
        "-p --no-renumber",
        texts="-b -d -f -h -i -l -n -s -v -w --body-numbering --number-format --number-separator --number-width",
    ),
    "tac": _text("-b -r --before --regex", texts="-s --separator"),
    "fold": _text("-# -b -s -c --bytes --spaces --characters", texts="-w --width"),
    "od": _text(
        "-a -b -c -d -f -h -i -l -o -s -v -x --output-duplicates",
        texts="-A -j -N -S -t --address-radix --endian --skip-bytes --read-bytes --format",
        maybe="-w --width --strings",
    ),
    "hexdump": _text(
        "-b -c -C -d -o -v -x -X --canonical --no-squeezing", texts="-e -n -s --length --skip"
    ),
    "strings": only(
        "-# -a -d -f -w --all --data --print-file-name" + _GNU,
        texts="-n -t -e --bytes --radix --encoding",
        check=_no_response_file,
    ),
    "base64": only("-d -D -i --decode --ignore-garbage" + _GNU, texts="-w --wrap"),
    **dict.fromkeys(("md5sum", "sha256sum"), _SUM),
    "jq": only(
        """
        -r -c -e -s -n -S -C -M -a -j -R -h -V --raw-output --raw-output0 --compact-output --exit-status --slurp
        --null-input --sort-keys --color-output --monochrome-output --ascii-output --join-output --raw-input --tab
        --stream --seq --unbuffered --help --version
        """,
        texts="--indent",
        pattern="",
        check=_jq,
    ),  # -f and -L read programs
    "sed": SED,
    "awk": AWK,
    # searching
    "grep": _GREP,
    "rg": _RG,
    **dict.fromkeys(("fd", "fdfind"), _FD),
    "find": only(plain_words=True, shows=False, check=_find),
    # files
    "ls": _LS,
    "stat": _STAT,
    "file": _FILE,
    "tree": _TREE,
    "du": _DU,
    "df": _names(
        """
        -a -b -g -h -H -i -I -k -l -m -n -P -T -v --all --human-readable --si --inodes --local --portability --total
        --print-type
        """,
        texts="-B -t -x --block-size --type --exclude-type",
        maybe="--output",
    ),
    "basename": _names("-a -z --multiple --zero", texts="-s --suffix"),
    "dirname": _names("-z --zero"),
    "realpath": _names(
        "-e -m -L -P -q -s -z --canonicalize-existing --canonicalize-missing --strip --no-symlinks --zero",
        texts="--relative-to --relative-base",
    ),
    "readlink": _names("-f -e -m -n -q -s -v -z --canonicalize --no-newline --zero"),
    "which": _names("-a -s --all"),
    "type": _names("-a -f -p -P -t"),
    # the shell and the machine
    **dict.fromkeys(("echo", ":", "true", "false"), _words()),
    "printf": _words(_printf),
    **dict.fromkeys(("test", "["), _words(_test)),
    "pwd": _names("-L -P --logical --physical"),
    "sleep": _names(),
    "seq": _names("-# -w --equal-width", texts="-f -s -t --format --separator"),
    "date": only(
        "-u -R --utc --universal --rfc-email --help --version",
        texts="-d --date --rfc-3339",
        takes="-r --reference",
        maybe="-I --iso-8601",
        shows=False,
        check=_date,
    ),
    "set": _words(_set),
    **dict.fromkeys(("exit", "wait"), only(operands=1, shows=False)),
    "expr": _words(),
    "printenv": _words(_printenv),
    "ps": _words(_ps),
    "locale": _names("-a -c -k -m -v --all-locales --keyword-name"),
    "dmesg": only("-T -k -x -P --ctime --kernel --nopager", operands=0),
    "whoami": _names(operands=0),
    "id": _names("-a -g -G -n -r -u -z -Z --group --groups --name --real --user", operands=1),
    "uname": _names("-a -s -n -r -v -m -p -i -o --all --kernel-name --machine", operands=0),
    "uptime": _names("-p -s --pretty --since", operands=0),
    "free": _names("-b -k -m -g -h -t -w -l --human --total --mega --giga", operands=0),
}

WRAPPERS: dict[str, tuple[OptionTable, int]] = {
    **dict.fromkeys(("command", "env"), (only(), 0)),
    "nice": (only("-#", texts="-n --adjustment"), 0),
    "timeout": (only("-v --foreground --preserve-status", texts="-k -s --kill-after --signal"), 1),
}
"""Programs that run another one: their options, and how many words of their own come before it."""

XARGS = only("-0 -r", texts="-n -d")
TAKES_ANY_WORD = frozenset("ls stat basename dirname realpath readlink echo".split())
"""Programs that may be given any words: they show nothing that is in files, and none of their options does harm."""

VERSIONED = frozenset(
    """
    automake bash bat buf bwrap cabal cc clang clang++ cmake curl docker dpkg ffmpeg ffprobe g++ gcc gdb gh git gpg
    java javac ld lua luajit make nginx ninja node nvim openssl pandoc perl php pip pip3 podman psql python
    python3 Rscript rsync ruby ruff script shfmt sqlite3 ssh strace svn tar tmux unzip vim vimdiff virtualenv wget xz
    zip zsh
    """.split()
)
"""More programs, whose `--version` obeys no file of the project. That of `yarn`, `cargo`, `mvn`,
`dotnet` and `pytest` does: they start or load what the project names."""
SHORT_VERSIONS = {
    **dict.fromkeys(("ffmpeg", "ffprobe", "java", "javac"), "-version"),
    **dict.fromkeys(("lua", "luajit", "node", "perl", "php", "ruby"), "-v"),
    **dict.fromkeys(("nginx", "python", "python3", "ssh", "tmux"), "-V"),
}
"""Another spelling of the same."""
