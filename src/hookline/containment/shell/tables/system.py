"""Programs that describe the machine: its hardware, its disks, its services, its binaries."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Check, Options, Program, only
from hookline.containment.shell.tables.checks import first_word, no_address, plain_names
from hookline.containment.shell.tables.files import tame


def _no_setting(call: Call) -> str | None:
    """A name is a question, unless it says what it should become, or leads out of where settings lie."""
    odd = any("=" in text or "/" in text for text in call.texts)
    return "it may set something, or show a file" if odd else None


def _service(call: Call) -> str | None:
    """A name leads to a script; with a slash in it, to any script."""
    exact = all(word.exact for word in call.operands)
    asks = (call.has("--status-all") and not call.operands) or (
        len(call.operands) == 2 and exact and call.texts[1] == "status"
    )
    named = not call.operands or re.fullmatch(r"\w[\w@.-]*", call.texts[0])
    return None if asks and named else "it does more than ask"


def _nft(call: Call) -> str | None:
    return first_word("list")(call) or plain_names(r"-?\w[\w@.+-]*")(call)


def _no_unit_environment(call: Call) -> str | None:
    """Everything about a unit, or the manager, is also what it was given to know."""
    shown = call.values("-p", "--property")
    env = any("env" in text.lower() for text in shown)
    return None if shown and not env else "it may print the environment of a service"


def _tput(call: Call) -> str | None:
    """What a terminal can do; not putting it into another state."""
    return first_word("(?!init|reset)[a-z0-9]+")(call)


def _stty(call: Call) -> str | None:
    asks = not call.operands or call.texts in (["size"], ["speed"])
    return None if asks else "it sets how the terminal works"


def _to_itself(call: Call) -> str | None:
    """One address, and that of this machine."""
    hosts = call.texts
    return None if hosts in (["localhost"], ["127.0.0.1"], ["::1"]) else "it uses the network"


def _no_words(call: Call) -> str | None:
    return "it may set something" if call.operands else None


def _pages(call: Call) -> str | None:
    """With a slash it is no name but a file, which may name others to be shown."""
    return "it may show files" if any("/" in word.text for word in call.words) else None


def _looks(
    flags: str = "",
    *,
    texts: str = "",
    maybe: str = "",
    operands: int | None = None,
    check: Check | None = None,
) -> Program:
    options = only(flags, texts=texts, maybe=maybe, operands=operands, check=check)
    return Program(options, reads=False)


def _needs(flags: str, more: str = "", *, operands: int | None = None) -> Program:
    """A program that asks with some options, one of which must be given."""
    return Program(only(f"{flags} {more}", needs=flags, operands=operands), reads=False)


def _verbs(
    verbs: str, flags: str = "", *, texts: str = "", check: Check | None = None, bare: bool = False
) -> Program:
    """A program that asks with some verbs, all with the same options, which may come first; `bare`: also without."""
    options = only(flags, texts=texts, check=check)
    named: dict[str, Options | Program] = {
        name.replace("*", " "): options for name in verbs.split()
    }
    return Program(only(flags, texts=texts), named | ({"": options} if bare else {}), reads=False)


_LSBLK = """
    -a -A -b -d -D -f -i -J -l -m -M -n -N -O -p -P -r -s -S -t -y -z -h -V --all --noempty --bytes --nodeps --discard
    --fs --ascii --json --list --perms --merge --noheadings --output-all --paths --pairs --raw --inverse --scsi
    --topology --shell --zoned --nvme --virtio
"""
_FINDMNT = """
    -A -a -b -C -c -D -e -f -i -J -k -l -m -n -P -R -r -s -U -u -v -x -y -h -V --all --ascii --bytes --nocanonicalize
    --canonicalize --deleted --df --evaluate --first-only --invert --json --kernel --list --mtab --noheadings
    --output-all --pairs --pseudo --shadowed --submounts --raw --real --fstab --tree --uniq --notruncate --nofsroot
    --verify --verbose --vfs-all --shell
"""
_UNIT_FLAGS = """
    --no-pager -l --full -a --all --user --system --failed -q --quiet --plain --no-legend --value --reverse -r
    --no-ask-password
"""
_UNIT_TEXTS = "-t -n -o -p --type --state --lines --output --property"
_JOURNAL = """
    -# -f -b -k -e -x -r -a -q --follow --no-pager --dmesg --pager-end --catalog --reverse --all --quiet --utc
    --user --system --disk-usage --list-boots --no-hostname --no-full --no-tail --merge -m --full -l --header
    --truncate-newline
"""
_IP = only(
    "-4 -6 -br -brief -s -stats -statistics -j -json -o -oneline -d -details -h -human -p -pretty -c -color",
    bundles=False,
)
_IP_OBJECTS = "addr a address link l route r neigh n neighbor neighbour rule ru maddr"


def _ip() -> dict[str, Options | Program]:
    verbs: dict[str, Options | Program] = {}
    for name in _IP_OBJECTS.split():
        verbs[name] = only(operands=0)
        verbs |= {f"{name} {verb}": only() for verb in ("show", "list", "ls")}
        if name not in {"link", "l"}:  # there it is short for `set`
            verbs[f"{name} s"] = only()
    return verbs | {"route get": only(), "r get": only()}


SYSTEM_TOOLS: dict[str, Program] = {
    "uname": tame(
        """
        -a -s -n -r -v -m -p -i -o --all --kernel-name --nodename --kernel-release --kernel-version --machine
        --processor --hardware-platform --operating-system
        """
    ),
    "arch": Program(only(operands=0), reads=False),  # that of macOS runs what follows
    "nproc": tame("--all", texts="--ignore"),
    "hostid": tame(),
    "hostname": _looks("-f -s -i -I -d -A --fqdn --short --all-fqdns --ip-address", operands=0),
    "lscpu": tame(
        "-a -b -B -c -J -x -y -h -V --all --online --bytes --offline --json --hex --physical --output-all",
        maybe="-e -p -C --extended --parse --caches",
        takes="-s --sysroot",
    ),
    "lsblk": tame(
        _LSBLK,
        texts="-e -E -I -o -x -w --exclude --dedup --include --output --sort --width",
        maybe="-T --tree",
    ),
    "lsmod": tame("-s -v -V"),
    "lsns": tame(
        """
        -J -l -n -r -u -W -T -h -V -P --json --list --noheadings --output-all --raw --notruncate --nowrap
        --tree --persistent
        """,
        texts="-o -p -t -Q --output --task --type",
    ),
    "lsipc": tame(
        """
        -g -m -q -s -c -e -J -l -n -b -r -t -P -y -h -V --global --shmems --queues --semaphores --creator --export
        --json --list --newline --noheadings --notruncate --bytes --raw --time --numeric-perms --shell
        """,
        texts="-i -o --id --output --time-format",
    ),
    "lslocks": tame(
        "-b -i -J -n -r -u -h -V --bytes --noinaccessible --json --noheadings --output-all --raw --notruncate",
        texts="-o -p --output --pid",
    ),
    "findmnt": tame(
        _FINDMNT,
        texts="""
        -d -N -O -o -t -w --direction --task --options --output --types --timeout -M -S -T --mountpoint
        --source --target
        """,
        takes="-F --tab-file",
    ),
    "mount": _looks("-l", operands=0),
    "crontab": _needs("-l", operands=0),
    "lspci": _looks("-v -vv -vvv -n -nn -k -t -x -mm -m -D -b -P", texts="-s -d"),
    "lsusb": _looks("-v -t -V", texts="-s -d"),
    "ifconfig": _looks("-a -s", operands=1),
    "dmesg": _looks(  # -c and -C clear it, -n and -D say what the console shows, -H starts a pager
        """
        -T -k -x -L -t -w -W -P -r -u -e -d --ctime --kernel --decode --notime --follow --follow-new --nopager --raw
        --userspace --reltime --show-delta
        """,
        texts="-l -f --level --facility --time-format --since --until",
        maybe="--color",
    ),
    "man": Program(only("-k -f -w -a -K --where --path", texts="-s -S", check=_pages), reads=False),
    **dict.fromkeys(("apropos", "whatis"), _looks("-e -r -w -a -l")),
    "tput": Program(only(check=_tput), reads=False),
    # --- services ---------------------------------------------------------------------------------
    "systemctl": Program(
        only(_UNIT_FLAGS, texts=_UNIT_TEXTS),
        {
            **dict.fromkeys(
                """
                status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-jobs
                list-dependencies get-default is-system-running cat
                """.split(),
                only(_UNIT_FLAGS, texts=_UNIT_TEXTS),
            ),
            "": only(_UNIT_FLAGS, texts=_UNIT_TEXTS),
            "show": only(
                "--no-pager --user --system --value",
                texts="-p --property",
                check=_no_unit_environment,
            ),
        },
        reads=False,
    ),
    "journalctl": _looks(
        _JOURNAL,
        texts="""
        -n -u --unit --user-unit --lines -p --priority -o --output --output-fields -S --since -U --until -t --identifier
        -g --grep -F --field --facility
        """,
        maybe="-n --lines --boot",
    ),
    "timedatectl": _verbs("status show timesync-status list-timezones", "--no-pager", bare=True),
    "hostnamectl": _verbs("status", "--no-pager --static --pretty", bare=True),
    "localectl": _verbs("status list-locales list-keymaps", "--no-pager", bare=True),
    "loginctl": _verbs(
        "list-sessions list-users list-seats",
        "--no-pager --no-legend",
        bare=True,
    ),
    "resolvectl": _verbs("status statistics", "--no-pager", bare=True),
    "systemd-analyze": _verbs("blame critical-chain time", "--user --system --no-pager", bare=True),
    "systemd-cgls": _looks("-a -l --no-pager --all --full", operands=0),
    "service": _looks("--status-all", check=_service),
    "launchctl": _verbs("list"),
    "ufw": Program(
        only(), {"status": only(check=first_word("verbose|numbered", needed=False))}, reads=False
    ),
    "nft": _looks("-a -n", check=_nft),
    "iptables": Program(
        only(
            "-n -v -L -S -x --list --list-rules --line-numbers --numeric --verbose",
            texts="-t --table",
            needs="-L -S --list --list-rules",
        ),
        reads=False,
    ),
    "firewall-cmd": Program(
        only(
            """
            --list-all --list-ports --list-services --list-all-zones --state --get-zones
            --get-active-zones --get-default-zone
            """,
            texts="--zone",
            operands=0,
        ),
        reads=False,
    ),
    "nmcli": Program(
        only("-t -p -c --terse --pretty", texts="-f -m --fields --mode"),
        {
            **dict.fromkeys(
                ("device show", "dev show", "connection show", "con show"),
                only("--active", check=plain_names(r"\w[\w@.+ -]*")),
            ),
            **dict.fromkeys(
                ("", "device", "dev", "device status", "dev status", "general", "general status"),
                only(operands=0),
            ),
            **dict.fromkeys(
                ("device wifi", "dev wifi"), only(check=first_word("list", needed=False))
            ),
        },
        reads=False,
    ),
    "resolvconf": _needs("-l", operands=0),
    # --- hardware and network ---------------------------------------------------------------------
    "ip": Program(_IP, _ip(), reads=False),
    "sysctl": Program(only("-a -n -N -e --all --values --names", check=_no_setting), reads=False),
    "swapon": Program(
        only(
            "-s --summary --noheadings --bytes --raw",
            maybe="--show",
            needs="-s --summary --show",
            operands=0,
        ),
        reads=False,
    ),
    "update-alternatives": _needs("--display --list --query --get-selections"),
    "alternatives": _needs("--display --list"),
    "ldconfig": _needs("-p --print-cache", operands=0),
    "sensors": _looks("-A -u -f -j", operands=1),
    "stty": Program(only("-a -g --all --save", check=_stty), reads=False),
    "chage": _needs("-l --list", operands=1),
    "lshw": Program(
        only(
            "-short -businfo -json -numeric -quiet -sanitize", texts="-class -C -c", bundles=False
        ),
        reads=False,
    ),
    "glxinfo": _looks("-B -l", operands=0),
    "ethtool": _looks("-i -S -k -a", operands=1),
    "xrandr": Program(only("--query --listmonitors -q", operands=0, bundles=False), reads=False),
    "acpi": _looks(
        "-a -b -c -f -i -s -t -V --battery --ac-adapter --thermal --cooling --everything",
        operands=0,
    ),
    "lsb_release": tame(
        "-a -c -d -i -r -s -v --all --codename --description --id --release --short"
    ),
    "getenforce": _looks(operands=0),
    "sestatus": _looks("-v -b", operands=0),
    "aa-status": _looks(operands=0),
    "iw": _verbs("list dev reg*get", check=_no_words),
    "ping": Program(only("-n -q -4 -6", texts="-c -W -w -i", check=_to_itself), reads=False),
    "route": _looks("-n -e", operands=0),
    "arp": _looks("-a -n -e", operands=0),
    "iwconfig": _looks(operands=1),
    "nvidia-smi": _looks(
        "-L -q --list-gpus",
        texts="-i -d --id --display --query-gpu --query-compute-apps --format",
        operands=0,
    ),  # -f writes
    "dmidecode": _looks("-q", texts="-t -s --type --string", operands=0),
    "jps": Program(
        only("-q -m -l -v -V", operands=0), reads=False
    ),  # -J: options of the Java machine
    # --- macOS ------------------------------------------------------------------------------------
    "sw_vers": Program(
        only(
            "-productName -productVersion -buildVersion --productName --productVersion --buildVersion",
            operands=0,
            bundles=False,
        ),
        reads=False,
    ),
    "system_profiler": Program(
        only("-listDataTypes -xml -json", texts="-detailLevel -timeout", bundles=False), reads=False
    ),
    "ioreg": _looks("-a -b -f -i -l -r -t -x", texts="-c -d -k -n -p -w"),
    "diskutil": _verbs("list info apfs*list"),
    "pmset": _needs("-g"),
    "plutil": Program(only("-p -lint -s", needs="-p -lint", bundles=False), reads=True),
    # --- what else there is -----------------------------------------------------------------------
    "pyenv": _verbs("versions version root which"),
    "rbenv": _verbs("versions version root which"),
    "svn": _verbs("status st", "-v -q --verbose --quiet --no-ignore", check=no_address),
}
