"""Searching and querying: ripgrep and its kin, jq, yq."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Program, only
from hookline.containment.shell.tables.checks import counted

_LOOKS_AWAY = re.compile(
    r"(?<![.A-Za-z_])(?:env|strenv|envsubst|load|strload|system|import|include|eval(?=\s*\())"
    r"|\benv\b|\$ENV|\$__prog|\binput_filename"
)
_YAML_LOOKS_AWAY = re.compile(r"load|env|system|eval(?!ua)|include|import")
_NAME_IN_PATH = re.compile(r"(?<!\.)\.[A-Za-z_][\w-]*|[\w./-]+\.(?:ya?ml|json|xml|toml)$")
_VERBS = frozenset({"eval", "e", "eval-all", "ea"})
"""Those of yq."""


def _query(call: Call) -> str | None:
    """Filters of jq and yq cannot write, but some look at the environment or at other files."""
    found = next((f for word in call.words if (f := _LOOKS_AWAY.search(word.text))), None)
    if found:
        return f"its filter may use {found[0]}"
    filters = call.operands[1 if call.texts[:1] and call.texts[0] in _VERBS else 0 :][:1]
    values = [value for _, value in call.options if value]
    known = all(word.exact for word in (*call.operands[:1], *filters, *values))
    return None if known else "its filter is not known"


def _yaml_query(call: Call) -> str | None:
    """yq reads words without blanks between them, and knows more spellings. What follows a dot is a name."""
    for word in call.operands[1 if call.texts[:1] and call.texts[0] in _VERBS else 0 :]:
        if word.text.endswith(".yq"):
            return f"{word.text} is a filter that nobody has read"
        if found := _YAML_LOOKS_AWAY.search(_NAME_IN_PATH.sub("", word.text)):
            return f"its filter may use {found[0]}"
    return _query(call)


def _no_addresses(call: Call) -> str | None:
    return "it may use the network" if any(":/" in word.text for word in call.words) else None


_RG = """
    -b -s -c -F -L -. -i -v -n -x -U -I -N -0 -o -P -p -q -z -S -a -u -H -w -l -h -V --auto-hybrid-regex --binary
    --block-buffered --byte-offset --case-sensitive --column --count --count-matches --crlf --debug --files
    --files-with-matches --files-without-match --fixed-strings --follow --glob-case-insensitive --heading --hidden
    --ignore-case --ignore-file-case-insensitive --include-zero --invert-match --json --line-buffered --line-number
    --line-regexp --max-columns-preview --mmap --multiline --multiline-dotall --no-config --no-filename --no-heading
    --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages
    --no-ignore-parent --no-ignore-vcs --no-line-number --no-messages --no-mmap --no-unicode --no-require-git
    --no-hidden --no-column --no-context-separator --null --null-data --one-file-system --only-matching --passthru
    --passthrough --pcre2 --pcre2-version --pretty --quiet --search-zip --smart-case --stats --stop-on-nonmatch --text
    --trim --no-trim --type-list --unrestricted --vimgrep --with-filename --word-regexp --help --version --no-pcre2
    --no-encoding --no-follow --no-text --sort-files --trace
"""
_RG_TEXTS = """
    -A -B -C -E -e -M -m -r -j -t -T -d --after-context --before-context --context --color --colors --context-separator
    --dfa-size-limit --encoding --engine --field-context-separator --field-match-separator --max-columns --max-count
    --max-depth --maxdepth --max-filesize --path-separator --regex-size-limit --regexp --replace --sort --sortr
    --threads --type --type-not --type-clear
"""
_AG = """
    -a -c -D -f -F -H -i -l -L -n -o -Q -r -R -s -S -t -u -U -v -V -w -z -0 -h --ackmate --all-types --count --column
    --debug --follow --fixed-strings --hidden --ignore-case --files-with-matches --files-without-matches
    --list-file-types --norecurse --only-matching --one-device --print-long-lines --passthrough --passthru --literal
    --recurse --case-sensitive --smart-case --search-binary --silent --stats --stats-only --all-text --unrestricted
    --skip-vcs-ignores --invert-match --version --vimgrep --word-regexp --search-zip --null --print0 --help --numbers
    --nonumbers --color --nocolor --group --nogroup --heading --noheading --break --nobreak --filename --nofilename
    --no-recurse --affinity --noaffinity --nofollow
"""

SEARCH: dict[str, Program] = {
    "rg": Program(  # --pre and --hostname-bin run programs
        only(
            _RG,
            texts=_RG_TEXTS,
            takes="-f --file --ignore-file --type-add",
            picks="-g --glob --iglob",
            pattern="-e --regexp -f --file --files --type-list",
        )
    ),
    "ag": Program(  # --pager runs a program
        only(
            _AG,
            texts="""
            -A -B -C -m --color-line-number --color-match --color-path --depth --ignore
            --ignore-dir --max-count --width --workers
            """,
            maybe="--after --before --context",
            takes="-p --path-to-ignore",
            picks="-g -G --file-search-regex",
            pattern="-g",
            check=counted("-A", "-B", "-C", "--after", "--before", "--context"),
        )
    ),
    "jq": Program(  # -f and -L read programs
        only(
            """
            -r -c -e -s -n -S -C -M -a -j -R -h -V --raw-output --raw-output0 --compact-output --exit-status --slurp
            --null-input --sort-keys --color-output --monochrome-output --ascii-output --join-output --raw-input --tab
            --args --jsonargs --stream --stream-errors --seq --unbuffered --help --version
            """,
            texts="--indent",
            pairs="--arg --argjson --slurpfile --rawfile",
            pattern="",
            check=_query,
            loose=True,
        )
    ),
    "yq": Program(  # -i writes, -s splits into files, --from-file reads programs; a single word may be a file
        only(
            """
            -r -c -e -P -C -M -j -y -Y -N -n -V -h --raw-output --compact-output --exit-status --prettyPrint --no-doc
            --colors --no-colors --tojson --yaml-output --yaml-roundtrip --null-input --help --version
            """,
            texts="-o -p -I -w --output-format --input-format --indent --width",
            maybe="--unwrapScalar",
            check=_yaml_query,
        )
    ),
    "xmllint": Program(
        only(
            "--noout --format --nonet --html --recover --nowarning --version",
            texts="--xpath",
            bundles=False,
            check=_no_addresses,
        )
    ),
}
