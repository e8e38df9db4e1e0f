"""Archives: listing what is in them."""

from __future__ import annotations

from hookline.containment.shell.options import Call, Program, only
from hookline.containment.shell.tables.checks import first_word, no_files_of_words


def _tar(call: Call) -> str | None:
    """No file with a colon, which tar fetches from another machine with a program."""
    far = next((word.text for word in call.files if ":" in word.text), None)
    return f"{far!r} may lie on another machine" if far else None


_PRINTING = frozenset("-c -d -k --stdout --to-stdout --decompress --uncompress --keep".split())
_STDOUT = frozenset({"-c", "--stdout", "--to-stdout"})


def _compressor(call: Call) -> str | None:
    """Listing and testing, or printing; never both, for the last of them would count; and never after a file."""
    names = {name for name, _ in call.options}
    looks = names <= {"-l", "-t", "-v", "--list", "--test", "--verbose"} and bool(
        names & {"-l", "-t", "--list", "--test"}
    )
    prints = names <= _PRINTING and bool(names & _STDOUT)
    said = call.early == len(call.options) and (looks or prints)
    return None if said else "it replaces files"


def _unzip(call: Call) -> str | None:
    """What is asked must be said by the first option: with `-Z` it is another program with other options."""
    first = call.options[0][0] if call.options else ""
    asks = first in {"-l", "-v", "-t", "-p", "-c", "-Z", "-Z1", "-z", "-lv", "-lq", "-tq"}
    return None if asks and call.early == len(call.options) else "it does more than list"


_COMPRESSED = Program(
    only(
        "-l -t -c -d -v -k --list --test --stdout --to-stdout --decompress --uncompress --keep --verbose",
        check=_compressor,
    )
)


def _seven(call: Call) -> str | None:
    return first_word("l|t")(call) or no_files_of_words(call)


ARCHIVES: dict[str, Program] = {
    "tar": Program(
        only(
            """
            -t -v -z -j -J -a --list --verbose --gzip --bzip2 --xz --zstd --numeric-owner --full-time --wildcards
            --auto-compress
            """,
            takes="-f -C --file --directory",
            texts="--exclude --strip-components",
            needs="-t --list",
            old=True,
            check=_tar,
        )
    ),
    "unzip": Program(only("-l -v -t -p -c -Z -Z1 -z -q -lv -lq -tq", bundles=False, check=_unzip)),
    "zipinfo": Program(only("-1 -2 -s -m -l -v -h -t -T -z -M", tame=True)),
    "gzip": _COMPRESSED,
    "gunzip": _COMPRESSED,
    "bzip2": _COMPRESSED,
    "xz": _COMPRESSED,
    "zstd": _COMPRESSED,
    "7z": Program(only("-slt -ba", bundles=False, check=_seven)),
    "jar": Program(
        only(
            "-t -v --list --verbose",
            takes="-f --file",
            needs="-t --list",
            old=True,
            check=no_files_of_words,
        )
    ),
    "ar": Program(only("-t -v -O", needs="-t", old=True, check=no_files_of_words)),
    "unrar": Program(
        only(check=lambda call: first_word("l|v|lb|vb|t")(call) or no_files_of_words(call))
    ),
}
