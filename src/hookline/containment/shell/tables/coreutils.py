"""The everyday programs of a Unix system, and the builtins of bash."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only
from hookline.containment.shell.scan_words import VARIABLES
from hookline.containment.shell.tables.first import first_word, no_files_of_words
from hookline.containment.shell.words import Word

_SHOW_FILES = """
    cat head tail wc cut tr diff cmp comm paste join nl tac rev fold fmt expand unexpand od hexdump
    hd column colrm base32 basenc md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum
    tsort look pr for
"""
"""Programs that show what is in files. None of their options writes or runs anything."""

_SHOW_NO_FILES = """
    ls echo pwd stat df whoami uname true false : basename dirname realpath readlink seq expr factor id groups who
    users w last uptime free arch nproc tty logname sleep which type whereis lscpu lsblk lsmod vmstat locale
    pathchk numfmt cd pushd popd dirs times clear cal ncal pgrep pidof pstree findmnt lsattr getfacl namei exit help
    netstat [[
"""
"""The same for programs that show no contents of files, whatever names they are given."""


def _date(words: Sequence[Word]) -> str | None:
    """A word that is neither a format nor the value of an option sets the clock."""
    before = ""
    for word in words:
        is_value = before in {"-d", "--date", "-r", "--reference"}
        if not is_value and not word.start.startswith(("-", "+")):
            return f"{word.text!r} may set the clock"
        before = "" if is_value else word.text
    return None


def _set(words: Sequence[Word]) -> str | None:
    harmless = {"-e", "-u", "-x", "-eu", "-ex", "-eux", "-o", "-eo", "-euo", "-euxo", "pipefail"}
    if not words or any(word.text not in harmless for word in words):
        return "it changes how the shell works, or prints all of its variables"
    return None


def _printenv(words: Sequence[Word]) -> str | None:
    if not words or any(word.text not in VARIABLES for word in words):
        return "the environment often holds secrets"
    return None


def _test(words: Sequence[Word]) -> str | None:
    """`-v` and `-R` look at a variable, and run what its index says: `test -v 'a[$(id)]'`."""
    runs = any(word.text in {"-v", "-R"} for word in words)
    return "it may run what the name of a variable says" if runs else None


def _printf(words: Sequence[Word]) -> str | None:
    """`-v` sets a variable, and so does `%n` in the format: `printf %n PATH`."""
    own = words[1:] if words and words[0] == Word("--") else words
    if not own:
        return None
    if not own[0].exact:
        return f"{own[0].text} may turn out to be an option, or to set a variable"
    sets = re.search(r"%[^A-Za-z%]*[hlLjztq]*n", own[0].text.replace("%%", ""))
    return "%n sets a variable" if sets else None


_PS_SHOWN = r"-[oO].*|--(?:sort|format|no-headers|headers|forest)(?:=.*)?"
_PS_BARE = "[aAcfhHjlLmnNrsSTuvwxXZ]*"
_PS_FORMS = (
    re.compile(rf"-[AadefFHjlLTwyc]+[oO]?|{_PS_SHOWN}"),
    re.compile(
        rf"-[fFHjlLTwy]*[uUpgtCGoO]|-[fFHjlLTwy]+|--?p?pid(?:=.*)?|--user(?:=.*)?|{_PS_SHOWN}"
    ),
    re.compile(rf"-aux|{_PS_BARE}(?:[oOpUtk].*)?|{_PS_SHOWN}"),
)
"""Every process; chosen processes; options without a dash. Mixed, they are not always read as written."""
_PS_TAKES = re.compile(
    rf"-[AadefFHjlLTwyc]*[uUpgtCGoO]|--?p?pid|--(?:user|sort|format)|{_PS_BARE}[oOpUtk]"
)


def _ps(words: Sequence[Word]) -> str | None:
    """`ps e` prints environments, `ps -e` does not; but what it cannot read with dashes, it reads without them."""
    own: list[str] = []
    before = ""
    for word in words:
        is_value = _PS_TAKES.fullmatch(before) and not word.text.startswith("-")
        shows = "environ" in word.text or (
            is_value
            and re.match("-[a-zA-Z]*[^oO]$", before)
            and re.match(f"{_PS_BARE}e", word.text)
        )
        if shows or not word.exact:
            return "it may print the environment of processes"
        if not is_value:
            own.append(word.text)
        before = "" if is_value else word.text
    harmless = any(all(form.fullmatch(text) for text in own) for form in _PS_FORMS)
    return None if harmless else "it may print the environment of processes"


def _top(words: Sequence[Word]) -> str | None:
    batch = any(word.text.startswith("-") and "b" in word.text for word in words)
    return None if batch else "without -b it waits for keys"


def _read(words: Sequence[Word]) -> str | None:
    """Names in small letters: the others mean something to the shell."""
    names = [word.text for word in words if word.text != "-r"]
    plain = all(re.fullmatch(r"(?!\w*_proxy$)[a-z_][a-z0-9_]*", name) for name in names)
    return None if plain else "it may set what the shell goes by"


def _getent(words: Sequence[Word]) -> str | None:
    """The databases that lie in files. Names of hosts are asked of the network."""
    harmless = {"passwd", "group", "services", "protocols", "rpc", "initgroups"}
    asks = bool(words) and words[0].text in harmless and all(word.exact for word in words)
    return None if asks else "it may show passwords, or ask the network"


def _pages(words: Sequence[Word]) -> str | None:
    """With a slash it is no name but a file, which may name others to be shown."""
    return "it may show files" if any("/" in word.text for word in words) else None


def _signals(words: Sequence[Word]) -> str | None:
    return None if words and words[0].text in {"-l", "-L"} else "it ends processes"


def _command(words: Sequence[Word]) -> str | None:
    asks = bool(words) and words[0].text in {"-v", "-V"}
    return None if asks else "it runs another command"


_UNPACKED = Program(only("-f -q -v -k -l -t"))

COREUTILS: dict[str, Program] = {
    **{name: Program() for name in _SHOW_FILES.split()},
    **{name: Program(reads=False) for name in _SHOW_NO_FILES.split()},
    **dict.fromkeys(
        ("grep", "egrep", "fgrep"),
        Program(but(takes="-A -B -C -D -d -e -f -m --include --exclude --exclude-dir")),
    ),
    **dict.fromkeys(("zcat", "bzcat", "xzcat", "zstdcat"), _UNPACKED),
    **dict.fromkeys(("test", "["), Program(but(check=_test), reads=False)),
    "zgrep": Program(only("-i -n -c -l -v -E -F -h -H -w -o -q", takes="-e -A -B -C -m")),
    "printf": Program(but("-v", check=_printf, loose=True), reads=False),
    "sort": Program(
        but(
            "-o --output --compress-program -T --temporary-directory --files0-from",
            takes="-k -t -S",
        )
    ),
    "uniq": Program(but(takes="-f -s -w", operands=1)),
    "xxd": Program(only("-a -b -C -e -E -i -p -u", takes="-c -g -l -o", operands=1)),
    "tree": Program(but("-o --output -R --info")),
    "du": Program(but("--files0-from", loose=True), reads=False),
    "file": Program(but("-C --compile -m --magic-file", takes="-F -P -e", loose=True)),
    "date": Program(but("-s --set -f --file", takes="-d -I -r", check=_date), reads=False),
    "hostname": Program(
        only("-f -s -i -I -d -A --fqdn --short --all-fqdns --ip-address", operands=0), reads=False
    ),
    "base64": Program(but("-o --output")),  # that of macOS writes files
    "tput": Program(only(check=first_word("(?!init|reset)[a-z0-9]+")), reads=False),
    "getconf": Program(only("-a"), reads=False),
    "jobs": Program(only("-l -p -r -s -n", operands=0), reads=False),
    "read": Program(only("-r", check=_read), reads=False),
    "set": Program(but(check=_set), reads=False),
    "printenv": Program(but(check=_printenv), reads=False),
    "command": Program(but(check=_command), reads=False),
    "alias": Program(only("-p", operands=0), reads=False),
    "umask": Program(only("-S -p", operands=0), reads=False),
    "ulimit": Program(only("-a -n -u -s -f -c -v -m -t -l -H -S", operands=0), reads=False),
    "shopt": Program(only("-p", operands=0), reads=False),
    "kill": Program(only("-l -L", check=_signals), reads=False),
    "mount": Program(only("-l", operands=0), reads=False),
    "crontab": Program(only("-l", operands=0), reads=False),
    "getent": Program(only(check=_getent), reads=False),
    "ps": Program(but(check=_ps), reads=False),
    "top": Program(only("-b -c -H -i -1", takes="-n -d -u -U -p -o -w", check=_top), reads=False),
    "lsof": Program(but("-D"), reads=False),
    "lspci": Program(only("-v -vv -vvv -n -nn -k -t -x -mm -D", takes="-s -d"), reads=False),
    "lsusb": Program(only("-v -t", takes="-s -d"), reads=False),
    "ss": Program(but("-K --kill -D --diag -F --filter"), reads=False),
    "ifconfig": Program(only("-a -s", operands=1), reads=False),
    **dict.fromkeys(
        ("nm", "objdump", "readelf", "size", "strings", "c++filt", "addr2line"),
        Program(but("--plugin", check=no_files_of_words)),
    ),
    "dmesg": Program(
        only("-T -k -x -L -t -w -W --ctime --kernel --color --level", takes="-l -f"), reads=False
    ),
    "man": Program(only("-k -f -w -a -K --where --path", takes="-s -S", check=_pages), reads=False),
    **dict.fromkeys(("apropos", "whatis"), Program(only("-e -r -w -a -l"), reads=False)),
}
