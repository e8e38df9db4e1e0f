"""The everyday programs of a Unix system, and the builtins of bash."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only
from hookline.containment.shell.words import Word

FREE = """
    cat head tail wc grep egrep fgrep zgrep cut tr diff cmp comm paste join nl tac rev fold fmt expand unexpand
    od hexdump hd strings column colrm base32 base64 basenc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum
    b2sum cksum sum zcat bzcat xzcat zstdcat tsort look pr
"""
"""Programs that show what is in files and have no option that writes or runs anything."""

FREE_OF_FILES = """
    ls echo pwd stat du df whoami uname true false : basename dirname realpath readlink seq expr factor id groups who
    users w last uptime free arch nproc tty logname test [ sleep which type whereis lscpu lsblk lsusb lspci lsmod vmstat
    locale getconf pathchk numfmt cd pushd popd dirs jobs times clear cal ncal pgrep pidof pstree findmnt lsattr getfacl
    namei exit help apropos whatis tput
"""
"""The same for programs that show no contents of files, whatever names they are given."""


def _date(words: Sequence[Word]) -> str | None:
    wanted = next((w for w in words if not w.start.startswith(("-", "+"))), None)
    values = {"-d", "--date", "-r", "--reference", "-f", "--file"}
    for before, word in zip(words, words[1:], strict=False):
        if word is wanted and before.text in values:
            return None
    return f"{wanted.text!r} may set the clock" if wanted else None


def _set(words: Sequence[Word]) -> str | None:
    harmless = {
        "-e",
        "-u",
        "-x",
        "-eu",
        "-ex",
        "-ux",
        "-eux",
        "-o",
        "-eo",
        "-euo",
        "-euxo",
        "pipefail",
    }
    if not words or any(word.text not in harmless for word in words):
        return "it changes how the shell works, or prints all of its variables"
    return None


def _printenv(words: Sequence[Word]) -> str | None:
    from hookline.containment.shell.scan import VARIABLES

    if not words or any(word.text not in VARIABLES for word in words):
        return "the environment often holds secrets"
    return None


def _ps(words: Sequence[Word]) -> str | None:
    """`ps e` prints environments; `ps -e` does not."""
    for word in words:
        if not word.start.startswith("-") and "e" in word.text and word.text.isalpha():
            return "it prints the environment of processes"
    return None


def _top(words: Sequence[Word]) -> str | None:
    batch = any(word.text.startswith("-") and "b" in word.text for word in words)
    return None if batch else "without -b it waits for keys"


def _getent(words: Sequence[Word]) -> str | None:
    secret = {"shadow", "gshadow"}
    return "it shows passwords" if any(word.text in secret for word in words) else None


def _command(words: Sequence[Word]) -> str | None:
    asks = bool(words) and words[0].text in {"-v", "-V"}
    return None if asks else "it runs another command"


COREUTILS: dict[str, Program] = {
    **{name: Program() for name in FREE.split()},
    **{name: Program(reads=False) for name in FREE_OF_FILES.split()},
    "printf": Program(but("-v"), reads=False),
    "sort": Program(
        but("-o --output --compress-program -T --temporary-directory", takes="-k -t -S")
    ),
    "uniq": Program(but(takes="-f -s -w", operands=1)),
    "xxd": Program(only("-a -b -C -e -E -i -p -u -ps", takes="-c -g -l -o -s", operands=1)),
    "tree": Program(but("-o --output -R --info", takes="-L -P -I -H -T"), reads=False),
    "file": Program(but("-C --compile -m --magic-file", takes="-F -f -P -e"), reads=False),
    "date": Program(but("-s --set", check=_date), reads=False),
    "hostname": Program(
        only("-f -s -i -I -d -A --fqdn --short --all-fqdns --ip-address", operands=0), reads=False
    ),
    "set": Program(but(check=_set), reads=False),
    "printenv": Program(but(check=_printenv), reads=False),
    "command": Program(but(check=_command), reads=False),
    "alias": Program(only("-p", operands=0), reads=False),
    "umask": Program(only("-S -p", operands=0), reads=False),
    "ulimit": Program(only("-a", operands=0), reads=False),
    "mount": Program(only("-l", operands=0), reads=False),
    "crontab": Program(only("-l", operands=0), reads=False),
    "getent": Program(but(check=_getent), reads=False),
    "ps": Program(but(check=_ps), reads=False),
    "top": Program(only("-b -c -H -i -1", takes="-n -d -u -U -p -o -w", check=_top), reads=False),
    "lsof": Program(but("-D", takes="-i -p -u -c -d -s"), reads=False),
    "ss": Program(but("-K --kill -D --diag -F --filter", takes="-f -A"), reads=False),
    "netstat": Program(reads=False),
    "ifconfig": Program(only("-a -s", operands=1), reads=False),
    "nm": Program(but("--plugin")),
    "objdump": Program(but("--plugin", takes="-j -M -b -m")),
    "readelf": Program(but()),
    "size": Program(but("--plugin")),
    "dmesg": Program(
        only("-T -H -k -x -L -t -w -W --ctime --human --kernel --color --level", takes="-l -f"),
        reads=False,
    ),
    "man": Program(only("-k -f -w -a -K --where --path", takes="-s -S"), reads=False),
}
