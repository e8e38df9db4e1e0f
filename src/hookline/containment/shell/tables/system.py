"""Programs that describe the machine, its hardware, its network and its services, and other everyday readers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only, operands_of
from hookline.containment.shell.tables.first import first_word, no_files_of_words
from hookline.containment.shell.words import Word

_SHOW_NOTHING_SECRET = """
    exa eza lsd tokei sw_vers system_profiler iostat mpstat ipcs lsns lsipc lslocks fc-list acpi lsb_release
    hostid modinfo mdls mdfind ioreg getenforce sestatus pwdx otool locate vm_stat
"""
_SHOW_FILES = """
    hexyl csvlook csvcut csvstat csvgrep csvsort pdfinfo shellcheck
"""


_NAME = re.compile(r"-?\w[\w@.+-]*")


def _no_setting(words: Sequence[Word]) -> str | None:
    """A name is a question, unless it says what it should become, or leads out of where settings lie."""
    odd = any("=" in word.text or "/" in word.text for word in words)
    return "it may set something, or show a file" if odd else None


def _service(words: Sequence[Word]) -> str | None:
    """A name leads to a script; with a slash in it, to any script."""
    asks = [word.text for word in words] == ["--status-all"] or (
        len(words) == 2
        and all(word.exact for word in words)
        and re.fullmatch(r"\w[\w@.-]*", words[0].text)
        and words[1].text == "status"
    )
    return None if asks else "it does more than ask"


def _plain_names(words: Sequence[Word]) -> str | None:
    """Names alone: no paths, addresses, patterns, nor commands of the program's own language."""
    odd = next((word for word in words if not _NAME.fullmatch(word.text) or not word.exact), None)
    return f"{odd.text!r} is more than a name" if odd else None


def _lists(words: Sequence[Word]) -> str | None:
    asks = bool(words) and words[0].text == "list"
    return _plain_names(words) if asks else "it does more than ask"


def _no_address(words: Sequence[Word]) -> str | None:
    """Media tools open addresses as well as files."""
    return "it may use the network" if any(":" in word.text for word in words) else None


def _to_itself(words: Sequence[Word]) -> str | None:
    """One address, and that of this machine."""
    hosts = [word.text for word in operands_of(only(takes="-c -W -w -i"), words)]
    return None if hosts in (["localhost"], ["127.0.0.1"], ["::1"]) else "it uses the network"


def _no_pager(words: Sequence[Word]) -> str | None:
    paging = [word.text for word in words if word.start.startswith("--paging")]
    return None if all(text == "--paging=never" for text in paging) else "it starts a pager"


def _jar(words: Sequence[Word]) -> str | None:
    return first_word("-?tv?f|-?tf?v?|--list")(words) or no_files_of_words(words)


def _ar(words: Sequence[Word]) -> str | None:
    return first_word("-?tv?")(words) or no_files_of_words(words)


def _stty(words: Sequence[Word]) -> str | None:
    asks = not words or [word.text for word in words] in (["-a"], ["-g"], ["size"], ["speed"])
    return None if asks else "it sets how the terminal works"


def _to_output(words: Sequence[Word]) -> str | None:
    return None if words and words[-1].text == "-" else "it writes a file"


def _looks(options: str = "", *, takes: str = "", operands: int | None = None) -> Program:
    return Program(only(options, takes=takes, operands=operands), reads=False)


def _asks(pattern: str, options: str = "", *, needed: bool = True) -> Program:
    return Program(only(options, check=first_word(pattern, needed=needed)), reads=False)


_X509 = only(
    """
    -noout -text -subject -issuer -dates -enddate -startdate -fingerprint -serial -sha256 -sha1 -pubkey -purpose -email
    -ext -nameopt -inform -in
    """
)

_CLOUD = only(
    takes="--format --project --filter --limit --region --zone -o --output -g --resource-group -n --name --query",
    check=no_files_of_words,
)
_GCLOUD = tuple(
    f"{group} list"
    for group in (
        *("projects", "config", "auth", "services", "functions", "run services"),
        *("compute instances", "compute zones", "compute regions", "container clusters"),
        *("sql instances", "app services", "app versions", "storage buckets"),
    )
)
_AZ = (
    *("account list", "account show", "group list", "group show", "vm list", "vm show"),
    *("aks list", "aks show", "webapp list", "acr list", "resource list", "network vnet list"),
)

SYSTEM_TOOLS: dict[str, Program] = {
    **{name: Program(reads=False) for name in _SHOW_NOTHING_SECRET.split()},
    **{name: Program() for name in _SHOW_FILES.split()},
    **dict.fromkeys(
        ("bat", "batcat"),
        Program(
            only(
                "-n -p -pp -A --plain --number --show-all --style --color --paging",
                check=_no_pager,
                takes="-r -l --line-range --language",
            )
        ),
    ),
    "glxinfo": _looks("-B -l", operands=0),
    "systemd-cgls": _looks("-a -l --no-pager", operands=0),
    "jps": _looks("-q -m -l -v -V", operands=0),  # with -J it takes options of the Java machine
    "bc": Program(only("-l -q -s -w")),
    "shuf": Program(but("-o --output", takes="-n -i")),
    "iconv": Program(only("-l -c -f -t --from-code --to-code --list")),
    "pdftotext": Program(only("-layout -raw -nopgbrk", check=_to_output)),
    "jar": Program(only("-t -f -v", operands=2, check=_jar)),
    "ar": Program(only("", operands=2, check=_ar)),
    "unrar": Program(only("", check=first_word("l|v|lb|t"))),
    "ffprobe": Program(
        only(
            "-v -hide_banner -show_format -show_streams -print_format -of -i -show_entries -select_streams",
            check=_no_address,
        )
    ),
    "openssl": Program(
        only(),
        {
            **dict.fromkeys(("x509", "req", "crl"), _X509),
            "version": only("-a -v -d -b"),
            "rand": only("-hex -base64"),
            "dgst": only("-sha256 -sha1 -sha512 -md5 -hex -r"),
            "ciphers": only("-v -V -s -tls1_3"),
        },
    ),
    "ssh-keygen": Program(
        only("-l -v", takes="-f -E", check=first_word("-l|-lf|-lvf")), reads=False
    ),
    "ssh-add": _asks("-l|-L", "-l -L"),
    "sysctl": Program(only("-a -n -N -e", check=_no_setting), reads=False),
    "swapon": _asks("--show|-s", "--show -s --noheadings --bytes"),
    **dict.fromkeys(
        ("timedatectl", "hostnamectl", "localectl", "loginctl", "resolvectl"),
        _asks("status|show|list-.*|statistics", "--no-pager", needed=False),
    ),
    "systemd-analyze": _asks("blame|critical-chain|time", "--user --no-pager", needed=False),
    "update-alternatives": _asks("--display|--list|--query", "--display --list --query"),
    "alternatives": _asks("--display|--list", "--display --list"),
    "ldconfig": _asks("-p|--print-cache", "-p --print-cache"),
    "sensors": _looks("-A -u -f -j"),
    "fuser": _looks("-v -n -u -m -a"),
    "stty": Program(only("-a -g", check=_stty), reads=False),
    "chage": _asks("-l", "-l"),
    "lshw": _looks("-short -businfo -json -C -c", takes="-class"),
    "iptables": Program(only("-n -v -L -S --line-numbers", takes="-t"), reads=False),
    "ufw": _asks("status"),
    "nft": Program(only("-a -n", check=_lists), reads=False),
    "firewall-cmd": _looks(
        "--list-all --list-ports --list-services --state --get-zones --get-active-zones"
    ),
    "nmcli": Program(
        only("-t -p", takes="-f -m"),
        dict.fromkeys(
            ("device status", "device show", "connection show", "general status", "dev status"),
            only(),
        ),
        reads=False,
    ),
    "sar": _looks("-u -r -q -d -b -A -S", takes="-n -P"),
    "pidstat": _looks("-u -r -d -t -h", takes="-p"),
    "ethtool": _looks("-i -S -k -a", operands=1),
    "xrandr": _looks("--query --listmonitors -q", operands=0),
    "diskutil": _asks("list|info|apfs list"),
    "pmset": _asks("-g", "-g"),
    "plutil": _asks("-p|-lint", "-p -lint"),
    "pipx": _asks("list", "--short --json"),
    "ping": Program(only("-n -q", takes="-c -W -w -i", check=_to_itself), reads=False),
    "route": _looks("-n -e", operands=0),
    "arp": _looks("-a -n -e", operands=0),
    "iwconfig": _looks(operands=1),
    "service": Program(only("--status-all", check=_service), reads=False),
    "launchctl": _asks("list"),
    "minikube": _asks("status|ip|version"),
    "pyenv": _asks("versions|version|root"),
    "rbenv": _asks("versions|version|root"),
    "svn": _asks("status|st", "-v -q"),
    "hg": _asks(
        "status|st|log|diff|branches|heads|tip|parents|summary", "-v -q -l -r -p -G -u --stat"
    ),
    "gcloud": Program(only(), dict.fromkeys(_GCLOUD, _CLOUD), reads=False),
    "az": Program(only(), dict.fromkeys(_AZ, _CLOUD), reads=False),
}
