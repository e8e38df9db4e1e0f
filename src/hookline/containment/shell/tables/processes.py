"""Processes, users and open files: what goes on, never what processes were given to know."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Options, Program, only
from hookline.containment.shell.tables.files import tame
from hookline.containment.shell.words import Word

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


def _ps(call: Call) -> str | None:
    """`ps e` prints environments, `ps -e` does not; but what it cannot read with dashes, it reads without them."""
    own: list[str] = []
    before = ""
    for word in call.operands:
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


_PGREP = """
    -a -A -c -f -i -l -n -o -q -v -w -x -h -V --list-full --ignore-ancestors --count --full --ignore-case --list-name
    --newest --oldest --quiet --inverse --lightweight --exact
"""
_PGREP_TEXTS = """
    -d -g -G -O -P -r -s -t -u -U --delimiter --pgroup --group --older --parent --runstates --session --terminal --euid
    --uid --ns --nslist --cgroup
"""
_SS = """
    -h -V -H -O -n -r -a -l -o -e -m -p -T -i -s -E -Z -z -b -4 -6 -0 -t -u -d -w -x -S -M -I --no-header --oneline
    --numeric --resolve --all --listening --options --extended --memory --processes --threads --info --tos --cgroup
    --tipcinfo --summary --events --context --contexts --bpf --ipv4 --ipv6 --packet --tcp --udp --dccp --raw --unix
    --sctp --tipc --vsock --xdp --mptcp --inet-sockopt --help --version
"""
_NETSTAT = """
    -r -g -i -M -s -v -W -n -N -c -e -o -p -l -a -F -C -t -u -w -x -4 -6 -Z -U -S -L -b -m -R -d --route --groups
    --interfaces --masquerade --statistics --verbose --wide --numeric --numeric-hosts --numeric-ports --numeric-users
    --symbolic --continuous --extend --timers --program --programs --listening --all --tcp --udp --raw --unix --fib
    --cache --udplite --sctp
"""
_LSOF_VALUES = {
    "-o": r"\d*",
    "-S": r"\d*",
    "-r": r"\d*",
    "-L": r"\d*",
    "-T": "[fqsw]*",
    "-x": "[fl]*",
    "-f": "[cfgGn]*",
}
"""Options whose value may be missing, and what it must then be like: what follows it would be read as options."""


_ADDRESS = re.compile(r"@(?:[\d.]+|\[[\da-fA-F:]+\])(?::[\w,-]*)?$")


def _lsof(call: Call) -> str | None:
    for name, value in call.options:
        if value and name in _LSOF_VALUES and not re.fullmatch(_LSOF_VALUES[name], value.text):
            return f"the option {name}{value.text}"
    odd = next((text for text in call.texts if re.match(r"\+(?![dDcLErw])", text)), None)
    if odd:
        return f"the option {odd}"
    named = any("@" in word.text and not _ADDRESS.search(word.text) for word in call.words)
    return "it asks the network for a name" if named else None


_SS_WORDS = re.compile(
    r"""
    state | exclude | src | dst | sport | dport | dev | fwmark | cgroup | autobound | and | or | not | eq | neq?
    | g[te] | l[te] | all | connected | synchronized | bucket | big | established | syn-sent | syn-recv | fin-wait-[12]
    | time-wait | closed? | close-wait | last-ack | listen(?:ing)? | closing
    | [=!<>]+ | [()&|!]+ | (?:\*|[\d.]+|\[[\da-f:]+\])?:[\w*-]+ | (?=.*[\d*:])[\d.:/*\[\]]+ | (?=.*:)[\da-f.:/\[\]]+
    """,
    re.VERBOSE,
)


def _ss(call: Call) -> str | None:
    """Filters of known words, numbers and ports. A name would be looked up in the network."""
    words = " ".join(call.texts).split()
    odd = next((word for word in words if not _SS_WORDS.fullmatch(word)), None)
    return f"{odd!r} may be looked up in the network" if odd else None


def _fuser(call: Call) -> str | None:
    """A comma comes before the name of a host."""
    return "it may use the network" if any("," in text for text in call.texts) else None


def _getent(call: Call) -> str | None:
    """The databases that lie in files. Names of hosts are asked of the network."""
    harmless = {"passwd", "group", "services", "protocols", "rpc", "initgroups"}
    asks = call.operands and call.operands[0].exact and call.texts[0] in harmless
    plain = all(word.exact or word.text in {"$USER", "$LOGNAME"} for word in call.operands)
    here = call.operands == (Word("hosts"), Word("localhost"))
    return None if (asks and plain) or here else "it may show passwords, or ask the network"


PROCESSES: dict[str, Program] = {
    "ps": Program(Options(plain_words=True, check=_ps), reads=False),
    "top": Program(
        only("-b -c -H -i -1 -S -s", texts="-n -d -u -U -p -o -w -e -E", needs="-b"), reads=False
    ),
    "pgrep": tame(_PGREP, texts=_PGREP_TEXTS, takes="-F --pidfile"),
    "pidof": tame("-c -n -q -s -t -w -x -z", texts="-o -S"),
    "pstree": tame(
        """
        -a -A -c -C -g -G -h -l -n -p -s -S -t -T -u -U -V -Z --arguments --ascii --compact-not --show-pgids
        --highlight-all --long --numeric-sort --show-pids --show-parents --thread-names --hide-threads --uid-changes
        --unicode
        """,
        texts="-H -N --highlight-pid --ns-sort",
    ),
    "pwdx": tame(),
    "pmap": Program(only("-x -X -d -q -p --extended --device --quiet --show-path"), reads=False),
    "slabtop": Program(only("-o --once", texts="-s --sort", needs="-o --once"), reads=False),
    "nice": Program(only(operands=0), reads=False),  # alone it says how nice it is
    # with one number more they would set what they show
    **dict.fromkeys(
        ("taskset", "chrt"),
        Program(only("-p -c --pid --cpu-list", needs="-p --pid", operands=1), reads=False),
    ),
    "ionice": Program(only(texts="-p --pid", needs="-p --pid", operands=0), reads=False),
    "prlimit": Program(
        only("--noheadings --raw --verbose", texts="-p -o --pid --output", operands=0), reads=False
    ),
    "atq": Program(only("-V", texts="-q", operands=0), reads=False),
    "lastlog": Program(only(texts="-u -t -b --user --time --before", operands=0), reads=False),
    "lsof": Program(  # -D writes a cache, -k and -m read other kernels
        only(
            "-a -b -C -E -h -H -K -l -n -N -O -P -R -t -U -v -V -w -X -Z",
            texts="-c -d -p -u",
            maybe="-F -i -g -s -o -S -r -L -T -x -f",
            check=_lsof,
        ),
        reads=False,
    ),
    "fuser": Program(only("-4 -6 -a -I -m -M -n -s -u -v -c -f -l -V", check=_fuser), reads=False),
    "ss": Program(only(_SS, texts="-f -A --family --query --socket", check=_ss), reads=False),
    "netstat": tame(_NETSTAT, texts="-A -f -I --protocol"),
    "id": tame(
        "-a -g -G -n -p -P -r -u -z -Z --group --groups --name --real --user --zero --context"
    ),
    "groups": tame(),
    "whoami": tame(),
    "logname": tame(),
    "users": tame(),
    "who": tame(
        """
        -a -b -d -H -l -m -p -q -r -s -t -T -u -w --all --boot --dead --heading --login --process --count --runlevel
        --short --time --mesg --message --users --writable --ips
        """
    ),
    "w": tame(
        """
        -c -f -h -i -n -o -p -s -t -u -V --container --from --no-header --ip-addr --old-style --pids --short
        --terminal --no-current
        """
    ),
    "last": tame(
        "-# -a -F -i -R -w -x -y -V --hostlast --fulltimes --ip --nohostname --fullnames --system",
        texts="-n -p -s -t --limit --present --since --until --time-format",
        takes="-f --file",
    ),
    "uptime": tame("-c -h -p -r -s -V --container --pretty --raw --since"),
    "free": tame(
        """
        -b -k -m -g -h -l -L -t -v -w -V --bytes --kibi --mebi --gibi --tebi --pebi --kilo --mega --giga --tera --peta
        --human --si --lohi --line --total --committed --wide
        """,
        texts="-c -s --count --seconds",
    ),
    "vmstat": tame(
        """
        -a -d -D -f -m -n -s -t -w -y -V -h --active --disk --disk-sum --forks --slabs --one-header --stats --timestamp
        --wide --no-first
        """,
        texts="-p -S --partition --unit",
    ),
    "iostat": Program(
        only(
            "-c -d -h -k -m -N -t -V -x -y -z -s --human --compact --pretty -p",
            texts="-g -j -w -C -n -o --dec",
        ),
        reads=False,
    ),
    "mpstat": Program(only("-A -n -u -V -T -H", texts="-I -N -o -P --dec"), reads=False),
    "sar": Program(
        only("-u -r -q -d -b -A -S -B -W -w -v -h -p -z", texts="-n -P -I -m -s -e -i"), reads=False
    ),
    "pidstat": Program(
        only("-u -r -d -t -h -w -l -s -v -V -R -I -H", texts="-p -T -C -U -G"), reads=False
    ),
    "vm_stat": Program(only(), reads=False),
    "ipcs": tame(
        """
        -a -b -c -l -m -p -q -s -t -u -V --all --creator --limits --shmems --pid --queues --semaphores --time
        --summary --human --bytes
        """,
        texts="-i --id",
    ),
    "getent": Program(only(tame=True, check=_getent), reads=False),  # -s loads code
}
