"""Programs that show texts: whole, in part, compared, sorted, counted, encoded.

Where `tame` is said, the manual was read for it: no option of the program writes, runs anything or uses the network.
"""

from __future__ import annotations

from hookline.containment.shell.options import Call, Options, Program, more, only
from hookline.containment.shell.tables.checks import counted, no_address

_GNU = " --help --version"


def _tame(flags: str = "", *, texts: str = "", takes: str = "", maybe: str = "") -> Program:
    """A program none of whose options does harm. Those that are not listed ask all the same."""
    return Program(only(flags + _GNU, texts=texts, takes=takes, maybe=maybe, tame=True))


_GREP = only(
    """
    -# -E -F -G -P -i -y -v -w -x -z -s -c -l -L -q -h -H -n -b -T -Z -u -U -a -I -r -R -o -V -S -O -p
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --invert-match
    --word-regexp --line-regexp --null-data --no-messages --count --files-with-matches --files-without-match --quiet
    --silent --no-filename --with-filename --line-number --byte-offset --initial-tab --null --binary --text
    --recursive --dereference-recursive --only-matching --line-buffered --unix-byte-offsets --no-group-separator
    """
    + _GNU,
    texts="""
    -e -m -A -B -C -d -D --regexp --max-count --after-context --before-context --context --label --binary-files
    --directories --devices --group-separator --exclude --exclude-dir
    """,
    takes="-f --file --exclude-from",
    picks="--include --include-dir",
    maybe="--color --colour",
    pattern="-e --regexp -f --file",
    tame=True,
    check=counted("-A", "-B", "-C", "-m"),
)
_ZGREP = only(
    "-# -i -n -c -l -v -E -F -h -H -w -o -q -s -x -a",
    texts="-e -A -B -C -m",
    pattern="-e",
)  # a script: what else it does with options is not known
_SUM = """
    -b -c -t -w -z --binary --check --text --warn --zero --tag --ignore-missing --quiet --status --strict
"""
_SORT = only(
    """
    -b -d -f -g -i -M -h -n -R -r -V -c -C -m -s -u -z --ignore-leading-blanks --dictionary-order --ignore-case
    --general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse
    --version-sort --merge --stable --unique --zero-terminated --debug
    """
    + _GNU,
    texts="-k -t -S --key --field-separator --buffer-size --parallel --batch-size --sort",
    maybe="--check",
)
_BASE64 = only(
    "-d -D -i --decode --ignore-garbage" + _GNU, texts="-w --wrap"
)  # that of macOS writes files with -o


_DEVICES = frozenset({"/dev/null", "/dev/stderr", "/dev/stdout"})


def _to_devices(call: Call) -> str | None:
    known = all(one.exact and one.text in _DEVICES for one in call.operands)
    return None if known and call.operands else "it writes files"


def _to_output(call: Call) -> str | None:
    return no_address(call) if call.texts[-1:] == ["-"] else "it writes a file"


def _summed(more_texts: str = "") -> Options:
    return only(_SUM + _GNU, texts=more_texts, tame=True)


_DIFF = """
    -q -s -c -u -e -n -y -p -t -T -l -r -N -P -i -E -Z -b -w -B -a -d -H --normal --brief --report-identical-files --ed
    --rcs --side-by-side --left-column --suppress-common-lines --show-c-function --expand-tabs --initial-tab
    --suppress-blank-empty --paginate --recursive --no-dereference --new-file --unidirectional-new-file
    --ignore-file-name-case --no-ignore-file-name-case --ignore-case --ignore-tab-expansion --ignore-trailing-space
    --ignore-space-change --ignore-all-space --ignore-blank-lines --text --strip-trailing-cr --minimal
    --speed-large-files
"""
_OD = """
    -a -b -c -d -f -h -i -l -o -s -v -x -B -D -e -F -H -I -L -O -X --output-duplicates --traditional
"""
_HEXDUMP = """
    -b -c -C -d -o -v -x -X -h -V --one-byte-octal --one-byte-char --canonical --two-bytes-decimal --two-bytes-octal
    --two-bytes-hex --one-byte-hex --no-squeezing
"""
_PR = """
    -# -a -c -d -F -f -J -m -r -t -T -v --across --show-control-chars --double-space --form-feed --join-lines --merge
    --no-file-warnings --omit-header --omit-pagination --show-nonprinting
"""

TEXT: dict[str, Program] = {
    "cat": _tame(
        """
        -A -b -e -E -l -n -s -t -T -u -v --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs
        --show-nonprinting
        """
    ),
    "head": _tame(
        "-# -q -v -z --quiet --silent --verbose --zero-terminated", texts="-c -n --bytes --lines"
    ),
    "tail": _tame(
        "-# -f -F -q -v -z -r --retry --quiet --silent --verbose --zero-terminated",
        texts="-c -n -s --bytes --lines --sleep-interval --pid --max-unchanged-stats",
        maybe="--follow",
    ),
    "wc": _tame(
        "-c -m -l -L -w --bytes --chars --lines --max-line-length --words", texts="--total"
    ),
    "cut": _tame(
        "-n -s -w -z --only-delimited --complement --zero-terminated",
        texts="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
    ),
    "tr": Program(
        only(
            "-c -C -d -s -t -u --complement --delete --squeeze-repeats --truncate-set1" + _GNU,
            tame=True,
        ),
        reads=False,
    ),
    "diff": _tame(
        _DIFF,
        texts="""
        -C -U -W -F -x -I -D -L --width --show-function-line --label --tabsize --exclude --ignore-matching-lines --ifdef
        --line-format --old-line-format --new-line-format --unchanged-line-format --old-group-format
        --new-group-format --unchanged-group-format --changed-group-format --horizon-lines --palette
        """,
        takes="-X -S --exclude-from --starting-file --from-file --to-file",
        maybe="--context --unified --color",
    ),
    "cmp": _tame(
        "-b -h -l -s -x --print-bytes --verbose --quiet --silent",
        texts="-i -n --ignore-initial --bytes",
    ),
    "comm": _tame(
        "-1 -2 -3 -i -z --check-order --nocheck-order --total --zero-terminated",
        texts="--output-delimiter",
    ),
    "paste": _tame("-s -z --serial --zero-terminated", texts="-d --delimiters"),
    "join": _tame(
        "-i -z --ignore-case --check-order --nocheck-order --header --zero-terminated",
        texts="-a -e -j -o -t -v -1 -2",
    ),
    "nl": _tame(
        "-p --no-renumber",
        texts="""
        -b -d -f -h -i -l -n -s -v -w --body-numbering --section-delimiter --footer-numbering --header-numbering
        --line-increment --join-blank-lines --number-format --number-separator --starting-line-number --number-width
        """,
    ),
    "tac": _tame("-b -r --before --regex", texts="-s --separator"),
    "rev": _tame("-0 -h -V --zero"),
    "fold": _tame("-# -b -s -c --bytes --spaces --characters", texts="-w --width"),
    "fmt": _tame(
        "-# -c -s -t -u --crown-margin --split-only --tagged-paragraph --uniform-spacing",
        texts="-w -g --prefix --width --goal",
        takes="-p",  # a flag, on macOS: then a file follows
    ),
    "expand": _tame("-# -i --initial", texts="-t --tabs"),
    "unexpand": _tame("-a --all --first-only", texts="-t --tabs"),
    "od": _tame(
        _OD,
        texts="-A -j -N -S -t --address-radix --endian --skip-bytes --read-bytes --format",
        maybe="-w --width --strings",
    ),
    **dict.fromkeys(
        ("hexdump", "hd"),
        _tame(
            _HEXDUMP,
            texts="-e -n -s --format --length --skip",
            takes="-f --format-file",
            maybe="-L --color",
        ),
    ),
    "column": _tame(
        """
        -t -J -e -x -L -d -V -h --table --json --table-header-repeat --fillrows --keep-empty-lines --table-noheadings
        --table-empty-lines
        """,
        texts="""
        -s -o -c -N -H -R -O -W -T -E --separator --output-separator --output-width --columns --table-columns
        --table-hide --table-right --table-order --table-wrap --table-truncate --table-noextreme
        --table-columns-limit --tree --tree-id --tree-parent --table-column --table-name
        """,
        takes="-n -l -r -i -p -C",  # flags, in some versions: then a file follows
    ),
    "colrm": _tame("-h -V"),
    "base32": Program(only("-d -i --decode --ignore-garbage" + _GNU, texts="-w --wrap", tame=True)),
    "basenc": _tame(
        """
        -d -i --decode --ignore-garbage --base64 --base64url --base32 --base32hex --base16 --base2msbf --base2lsbf
        --z85
        """,
        texts="-w --wrap",
    ),
    "base64": Program(_BASE64),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"),
        Program(_summed()),
    ),
    "b2sum": Program(_summed("-l --length")),
    "cksum": Program(
        more(_summed("-a -l --algorithm --length"), "--untagged --raw --base64 --debug")
    ),
    "shasum": Program(
        only("-b -c -t -U -0 -s -q -w --binary --check --text --tag", texts="-a --algorithm")
    ),
    "md5": Program(only("-q -r -n")),
    "sum": _tame("-r -s --sysv"),
    "tsort": _tame("-w"),
    "look": _tame("-a -d -f -h -V --alternative --alphanum --ignore-case", texts="-t --terminate"),
    "pr": _tame(
        _PR,
        texts="""
        -D -h -l -N -o -w -W --columns --date-format --header --length --first-line-number --indent --width
        --page-width
        """,
        maybe="-e -i -n -s -S --expand-tabs --output-tabs --number-lines --separator --sep-string",
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep"), Program(_GREP)),
    "zgrep": Program(_ZGREP),
    **dict.fromkeys(("zcat", "bzcat", "xzcat", "zstdcat"), Program(only("-f -q -v -k -l -t"))),
    "sort": Program(_SORT),
    "uniq": Program(
        only(
            "-# -c -d -D -i -u -z --count --repeated --ignore-case --unique --zero-terminated"
            + _GNU,
            texts="-f -s -w --skip-fields --skip-chars --check-chars",
            maybe="--all-repeated --group",
            operands=1,
        )
    ),
    "xxd": Program(  # it looks at the first letter of a word alone: `-ac 8` is `-a`, and 8 the file
        only(
            """
            -a -b -C -e -E -i -p -u -d -v -autoskip -bits -capitalize -EBCDIC -include -ps -postscript -plain
            -version
            """,
            texts="-c -g -l -o -s -cols -groupsize -len -seek",
            operands=1,
            bundles=False,
        )
    ),
    "shuf": Program(
        only(
            "-e -r -z --echo --repeat --zero-terminated" + _GNU,
            texts="-i -n --input-range --head-count",
            takes="--random-source",
        )
    ),
    "iconv": Program(
        only("-l -c -s --list --silent", texts="-f -t --from-code --to-code")
    ),  # -o writes
    "hexyl": Program(
        only(
            "-v -C -P --no-squeezing --no-characters --no-position --plain --little-endian-format",
            texts="""
            -n -c -s -b -g -o --length --bytes --skip --block-size --border --color --panels --group-size
            --base
            """,
        )
    ),
    "pdfinfo": Program(
        only(
            "-box -meta -custom -js -struct -struct-text -isodates -rawdates -dests -url -v -h -enc -listenc",
            texts="-f -l",
            bundles=False,
            check=no_address,
        )
    ),
    "pdftotext": Program(
        only(
            "-layout -raw -nopgbrk -htmlmeta -q",
            texts="-f -l -enc -eol",
            bundles=False,
            check=_to_output,
        )
    ),
    **dict.fromkeys(("dos2unix", "unix2dos"), Program(only("-i --info", needs="-i --info"))),
    "tee": Program(only("-a -i -p --append --ignore-interrupts", check=_to_devices), reads=False),
    "bc": Program(only("-l -q -s -w -i --mathlib --quiet --standard --warn")),
}
