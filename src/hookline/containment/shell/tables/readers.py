"""Readers that are not always there: of binaries, certificates, tables, films and source code."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Options, Program, only
from hookline.containment.shell.tables.checks import no_address, no_files_of_words


def _no_pager(call: Call) -> str | None:
    paging = call.values("--paging")
    return None if all(text == "never" for text in paging) else "it starts a pager"


_TEXT = re.compile(
    r"[\w./-]+\.(?:md|rst|txt|log|csv|json|ya?ml|toml|ini|cfg|conf|py|pyi|js|jsx|ts|tsx|mjs|css|html|xml|rs|go|c|h|cc|cpp"
    r"|hpp|java|kt|rb|php|sh|sql|proto|tf|lock)|(?:[\w./-]+/)?(?:README|LICENSE|Makefile|Dockerfile|CHANGELOG)"
)


def _pages(call: Call) -> str | None:
    """Texts alone, by names that no shell stumbles over: for others, the user's `LESSOPEN` may start a program."""
    odd = next((w for w in call.operands if not (w.exact and _TEXT.fullmatch(w.text))), None)
    return f"it may start a program for {odd.text}" if odd else None


_X509 = only(
    """
    -noout -text -subject -issuer -dates -enddate -startdate -fingerprint -serial -sha256 -sha1 -pubkey -purpose -email
    -modulus -hash -subject_hash -issuer_hash -ocsp_uri
    """,
    texts="-in -ext -nameopt -certopt -inform -checkend -checkhost",
    bundles=False,
    check=no_address,
)
_BINUTILS: dict[str, Options] = {
    "nm": only(
        """
        -a -A -o -B -C -D -e -f -g -h -j -l -n -p -P -r -s -S -u -U -v -V -W --debug-syms --print-file-name --demangle
        --dynamic --extern-only --line-numbers --numeric-sort --no-sort --print-size --size-sort --reverse-sort
        --undefined-only --defined-only --no-demangle --print-armap --special-syms --synthetic --with-symbol-versions
        --portability --just-symbols --help --version
        """,
        texts="-t -F --radix --format",
        check=no_files_of_words,
    ),
    "objdump": only(  # -S prints whatever file an object names as its source
        """
        -a -f -p -h -x -d -D -s -g -e -G -t -T -r -R -l -C -w -z -F -i -V -H --archive-headers --file-headers
        --private-headers --section-headers --headers --all-headers --disassemble-all --full-contents
        --debugging --stabs --syms --dynamic-syms --reloc --dynamic-reloc --line-numbers --wide --no-show-raw-insn
        --prefix-addresses --help --version --no-addresses
        """,
        texts="-j -M --section --disassembler-options --start-address --stop-address",
        maybe="-W --dwarf --disassemble --demangle --disassembler-color --visualize-jumps",
        check=no_files_of_words,
    ),
    "readelf": only(
        """
        -a -h -l -S -g -t -e -s -n -r -u -d -V -A -c -D -I -W -C -T -v -H --all --file-header --program-headers
        --segments --section-headers --sections --section-groups --section-details --headers --syms --symbols --dyn-syms
        --notes --relocs --unwind --dynamic --version-info --arch-specific --archive-index --use-dynamic --histogram
        --wide --silent-truncation --help --version
        """,
        texts="-p -x -R --string-dump --hex-dump --relocated-dump",
        maybe="-w --debug-dump --demangle",
        check=no_files_of_words,
    ),
    "size": only(
        "-A -B -G -d -o -x -t --totals --common --help --version -m -l",
        texts="--format --radix",
        check=no_files_of_words,
    ),
    "strings": only(
        "-# -a -d -f -w -h -v --all --data --print-file-name --include-all-whitespace --help --version",
        texts="-n -t -e -s --bytes --radix --encoding --output-separator",
        maybe="-U --unicode",
        check=no_files_of_words,
    ),
    "c++filt": only(
        "-_ -n -i -p -t -r --strip-underscore --no-verbose --no-params --types --help --version",
        texts="-s --format",
        check=no_files_of_words,
    ),
    "addr2line": only(
        "-a -i -f -s -p -C --addresses --inlines --functions --basenames --pretty-print --demangle --help --version",
        takes="-e --exe",
        texts="-j --section",
        check=no_files_of_words,
    ),
}

READERS: dict[str, Program] = {
    **{name: Program(options) for name, options in _BINUTILS.items()},
    **dict.fromkeys(
        ("bat", "batcat"),
        Program(
            only(
                "-n -p -pp -A -P --plain --number --show-all -u --unbuffered -d --diff --list-languages --list-themes",
                texts="""
                -l -H --language --highlight-line --style --color --theme --tabs --wrap
                --terminal-width --decorations --paging
                """,
                takes="-r --line-range --file-name",
                check=_no_pager,
            )
        ),
    ),
    # where there is no terminal, these print
    "less": Program(only("-e -E -F -g -G -i -I -M -m -n -N -q -r -R -s -S -X", check=_pages)),
    "more": Program(only("-c -d -f -l -p -s -u", check=_pages)),
    "shellcheck": Program(  # -a prints lines of what a script includes
        only(
            "-x -C -V --external-sources --norc --list-optional --version",
            texts="""
            -e -f -i -o -s -S -W --exclude --format --include --enable --shell --severity
            --wiki-link-count
            """,
            takes="-P --source-path --rcfile",
            maybe="--color",
            loose=True,
        )
    ),
    **dict.fromkeys(
        ("csvlook", "csvcut", "csvstat", "csvgrep", "csvsort"),
        Program(
            only(
                """
                -t -b -S -H -l -n -i -r -a -x -V --tabs --no-header-row --names --invert-match
                --reverse --count --csv --nulls --unique --min --max --sum --mean --median --stdev
                --len --freq --type --no-inference
                """,
                takes="""
                -f -z --file -d -q -u -p -e -c -C -m -y -K --delimiter --quotechar --encoding --columns
                --not-columns --match --regex --max-rows --max-columns --max-column-width --snifflimit
                --skip-lines
                """,
            )
        ),
    ),
    "ffprobe": Program(
        only(
            "-hide_banner -show_format -show_streams -show_chapters -show_packets -show_frames -pretty",
            texts="-v -loglevel -print_format -of -show_entries -select_streams",
            takes="-i",
            bundles=False,
            check=no_address,
        )
    ),
    "openssl": Program(
        only(),
        {
            **dict.fromkeys(("x509", "req", "crl"), _X509),
            "version": only("-a -v -d -b", bundles=False),
            "rand": only("-hex -base64", bundles=False),
            "dgst": only("-sha256 -sha1 -sha512 -sha384 -md5 -hex -r", bundles=False),
            "ciphers": only("-v -V -s -tls1_3", bundles=False),
        },
    ),
    "ssh-keygen": Program(only("-l -v", takes="-f", texts="-E", needs="-l"), reads=False),
    "ssh-add": Program(only("-l -L", needs="-l -L", operands=0), reads=False),
}
