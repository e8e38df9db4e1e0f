"""Programs that describe the machine: its hardware, its disks, its services, its binaries."""

from __future__ import annotations

import re

from hookline.containment.shell.options import WORDS, Call, Check, Options, Program, only
from hookline.containment.shell.tables.checks import (
    first_word,
    no_address,
    no_files_of_words,
    plain_names,
)
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


def _no_pager(call: Call) -> str | None:
    paging = call.values("--paging")
    return None if all(text == "never" for text in paging) else "it starts a pager"


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
    -# -f -b -k -e -x -r -a -q -n --follow --no-pager --boot --dmesg --pager-end --catalog --reverse --all --quiet --utc
    --user --system --disk-usage --list-boots --no-hostname --no-full --no-tail --merge -m --full -l --header --truncate-newline
"""
_X509 = only(
    """
    -noout -text -subject -issuer -dates -enddate -startdate -fingerprint -serial -sha256 -sha1 -pubkey -purpose -email
    -modulus -hash -subject_hash -issuer_hash -ocsp_uri
    """,
    takes="-in",
    texts="-ext -nameopt -certopt -inform -checkend -checkhost",
    bundles=False,
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
    "objdump": only(
        """
        -a -f -p -h -x -d -D -S -s -g -e -G -t -T -r -R -l -C -w -z -F -i -V -H --archive-headers --file-headers
        --private-headers --section-headers --headers --all-headers --disassemble-all --source --full-contents
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
_IP = only(
    "-4 -6 -br -brief -s -stats -statistics -j -json -o -oneline -d -details -h -human -p -pretty -c -color",
    bundles=False,
)
_IP_OBJECTS = "addr a address link l route r neigh n neighbor neighbour rule ru maddr"


def _ip() -> dict[str, Options | Program]:
    verbs: dict[str, Options | Program] = {}
    for name in _IP_OBJECTS.split():
        verbs[name] = only(operands=0)
        verbs |= dict.fromkeys(
            (f"{name} {verb}" for verb in ("show", "list", "ls", "s", "sh")), WORDS
        )
    return verbs | {"route get": WORDS, "r get": WORDS}


SYSTEM_TOOLS: dict[str, Program] = {
    "uname": tame(
        """
        -a -s -n -r -v -m -p -i -o --all --kernel-name --nodename --kernel-release --kernel-version --machine
        --processor --hardware-platform --operating-system
        """
    ),
    "arch": tame(),
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
        "-J -l -n -r -u -W -T -h -V -P --json --list --noheadings --output-all --raw --notruncate --nowrap --tree --persistent",
        texts="-o -p -t -Q --output --task --type",
    ),
    "lsipc": tame(
        """
        -g -m -q -s -c -e -J -l -n -b -r -t -P -y -h -V --global --shmems --queues --semaphores --creator --export --json
        --list --newline --noheadings --notruncate --bytes --raw --time --numeric-perms --shell
        """,
        texts="-i -o --id --output --time-format",
    ),
    "lslocks": tame(
        "-b -i -J -n -r -u -h -V --bytes --noinaccessible --json --noheadings --output-all --raw --notruncate",
        texts="-o -p --output --pid",
    ),
    "findmnt": tame(
        _FINDMNT,
        texts="-d -N -O -o -t -w --direction --task --options --output --types --timeout -M -S -T --mountpoint --source --target",
        takes="-F --tab-file",
    ),
    "mount": _looks("-l", operands=0),
    "crontab": _needs("-l", operands=0),
    "lspci": _looks("-v -vv -vvv -n -nn -k -t -x -mm -m -D -b -P", texts="-s -d"),
    "lsusb": _looks("-v -t -V", texts="-s -d"),
    "ifconfig": _looks("-a -s", operands=1),
    "dmesg": _looks(  # -c and -C clear it, -n and -D say what the console shows
        "-T -k -x -L -t -w -W -H -P -r -u -e -d --ctime --kernel --decode --notime --follow --human --nopager --raw --userspace --reltime --show-delta",
        texts="-l -f --level --facility --time-format --since --until",
        maybe="--color",
    ),
    "man": Program(only("-k -f -w -a -K --where --path", texts="-s -S", check=_pages), reads=False),
    **dict.fromkeys(("apropos", "whatis"), _looks("-e -r -w -a -l")),
    "tput": Program(only(check=_tput), reads=False),
    **{name: Program(options) for name, options in _BINUTILS.items()},
    # --- everyday readers that are not always there -----------------------------------------------
    **dict.fromkeys(
        ("bat", "batcat"),
        Program(
            only(
                "-n -p -pp -A -P --plain --number --show-all -u --unbuffered -d --diff --list-languages --list-themes",
                texts="-l -H --language --highlight-line --style --color --theme --tabs --wrap --terminal-width --decorations --paging",
                takes="-r --line-range --file-name",
                check=_no_pager,
            )
        ),
    ),
    "shellcheck": Program(
        only(
            "-a -x -C -V --check-sourced --external-sources --norc --list-optional --version",
            texts="-e -f -i -o -s -S -W --exclude --format --include --enable --shell --severity --wiki-link-count --color",
            takes="-P --source-path --rcfile",
        )
    ),
    **dict.fromkeys(
        ("csvlook", "csvcut", "csvstat", "csvgrep", "csvsort"),
        Program(
            only(
                "-t -b -S -H -l -n -i -r -a -x -z -V --tabs --no-header-row --names --invert-match --reverse --count --csv --nulls --unique --min --max --sum --mean --median --stdev --len --freq --type --no-inference",
                texts="-d -q -u -p -e -c -C -m -y -K --delimiter --quotechar --encoding --columns --not-columns --match --regex --max-rows --max-columns --max-column-width --snifflimit --skip-lines",
                takes="-f --file",
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
    "ssh-add": _needs("-l -L", operands=0),
    # --- services ---------------------------------------------------------------------------------
    "systemctl": Program(
        only(_UNIT_FLAGS, texts=_UNIT_TEXTS),
        {
            **dict.fromkeys(
                """
                status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-jobs
                list-dependencies get-default is-system-running
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
        -u --unit --user-unit --lines -p --priority -o --output --output-fields -S --since -U --until -t --identifier -g
        --grep -F --field --facility
        """,
    ),
    "timedatectl": _verbs("status show timesync-status list-timezones", "--no-pager", bare=True),
    "hostnamectl": _verbs("status", "--no-pager --static --pretty", bare=True),
    "localectl": _verbs("status list-locales list-keymaps", "--no-pager", bare=True),
    "loginctl": _verbs(
        "list-sessions list-users list-seats session-status user-status",
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
            "--list-all --list-ports --list-services --list-all-zones --state --get-zones --get-active-zones --get-default-zone",
            texts="--zone",
            operands=0,
        ),
        reads=False,
    ),
    "nmcli": _verbs(
        "device device*status device*show connection*show general*status dev*status dev",
        "-t -p -c --terse --pretty",
        texts="-f -m --fields --mode",
    ),
    "resolvconf": _needs("-l", operands=0),
    # --- hardware and network ---------------------------------------------------------------------
    "ip": Program(_IP, _ip(), reads=False),
    "sysctl": Program(only("-a -n -N -e --all --values --names", check=_no_setting), reads=False),
    "swapon": _needs("--show -s --summary", "--noheadings --bytes --raw", operands=0),
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
    "ping": Program(only("-n -q -4 -6", texts="-c -W -w -i", check=_to_itself), reads=False),
    "route": _looks("-n -e", operands=0),
    "arp": _looks("-a -n -e", operands=0),
    "iwconfig": _looks(operands=1),
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
