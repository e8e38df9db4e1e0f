"""The system call filter, assembled here: a program for the kernel's packet filter machine, one small block per rule.

It closes what namespaces and read-only mounts leave open. A unix socket by its path connects through a read-only
bind, so only sockets of the internet families can be made. A connected pair is harmless unless it is one of datagrams,
which can be connected again, elsewhere. A root that has no capabilities left can still set the set-user-id bit on a
file in the work directory, which would be root's for whoever runs it outside. The set-group-id bit cannot be refused to
`chmod`: directories need it, and a filter does not see what a path leads to. A second filter reports those calls.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from hookline.errors import SandboxError

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR, _REPORT = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
"""Where in what the filter is shown the number, the machine and the arguments are."""

_REFUSED = (
    # other processes, and their memory
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "perf_event_open"),
    # what is mounted where
    *("mount", "umount2", "pivot_root", "chroot", "open_tree", "open_tree_attr", "move_mount"),
    *(
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "open_by_handle_at",
        "file_setattr",
    ),
    # other namespaces
    *("unshare", "setns"),
    # the kernel itself, and what belongs to the whole machine
    *("bpf", "userfaultfd", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load"),
    *("create_module", "init_module", "finit_module", "delete_module", "reboot", "swapon"),
    *("swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "nfsservctl", "lookup_dcookie"),
    *("settimeofday", "clock_settime", "clock_adjtime", "sethostname", "setdomainname"),
    *("iopl", "ioperm", "modify_ldt", "uselib", "_sysctl", "vhangup", "fanotify_init"),
)
"""Refused with EPERM, whatever the arguments."""

_MISSING = (
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),  # would go around this filter
    *("clone3", "openat2"),  # their arguments are in memory, where a filter cannot look
)
"""Answered with ENOSYS, as by an older kernel: what uses them has another way."""

_NEW_NAMESPACES = 0x7E020000
_INTERNET = (2, 10, 16)
"""AF_INET, AF_INET6, and AF_NETLINK, without which names are not looked up."""
_CONNECTED_TYPES = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET."""
_TYPE_MASK = 0xF
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they type into the terminal of whoever started us."""
_OF_FILE_SYSTEMS = (0x5800, 0x6600, 0x9400, 0xBC00, 0xF500)
"""Kinds of `ioctl`: of XFS, of ext4 and most others, of btrfs, bcachefs and F2FS. Among them are keys and flags by
which a file has another name later, content that is exchanged while no time shows it, snapshots, which show what a
mount hides, and read-only subvolumes, from which nothing can be moved aside. A list of what is refused had gaps."""
_KIND = 0xFF00
_READS_AND_COPIES = (0x80086601, 0x801C581F, 0xC020660B, 0x40049409, 0x4020940D, 0xC0189436)
"""Of these kinds: flags and extents that are read, FICLONE, FICLONERANGE and FIDEDUPERANGE."""
_LEASE = (1024, 1040)
"""F_SETLEASE and F_SETDELEG: with one, the next program that opens the file waits for up to 45 seconds."""
_PERSONALITIES = (0, 0x40000, 0xFFFFFFFF)
"""The usual one, the usual one without address randomisation, and the question which it is."""
_SET_USER_ID, _SET_GROUP_ID, _SET_IDS = 0o4000, 0o2000, 0o6000
_CHANGE_MODE = (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))
"""Calls that change the mode of what exists, and which argument is the mode."""
_CREATES = 0x400040
"""O_CREAT, and the bit that makes a nameless file: without one of them there is no mode to look at."""

_CALLS = """
    ioctl 16/29  socket 41/198  socketpair 53/199  clone 56/220  fcntl 72/25  fchmod 91/52  ptrace 101/117
    syslog 103/116  personality 135/92  vhangup 153/58  pivot_root 155/41  chroot 161/51  acct 163/89
    settimeofday 164/170  mount 165/40  umount2 166/39  swapon 167/224  swapoff 168/225  reboot 169/142
    sethostname 170/161  setdomainname 171/162  init_module 175/105  delete_module 176/106  quotactl 179/60
    nfsservctl 180/42  lookup_dcookie 212/18  clock_settime 227/112  kexec_load 246/104  add_key 248/217
    request_key 249/218
    keyctl 250/219  openat 257/56  mknodat 259/33  fchmodat 268/53  unshare 272/97  perf_event_open 298/241
    fanotify_init 300/262  open_by_handle_at 304/265  clock_adjtime 305/266  setns 308/268
    process_vm_readv 310/270  process_vm_writev 311/271  kcmp 312/272  finit_module 313/273  seccomp 317/277
    kexec_file_load 320/294  bpf 321/280  userfaultfd 323/282
    open 2/  creat 85/  chmod 90/  mknod 133/  uselib 134/  modify_ldt 154/  _sysctl 156/  iopl 172/  ioperm 173/
    create_module 174/
    io_uring_setup 425/425  io_uring_enter 426/426  io_uring_register 427/427  open_tree 428/428  move_mount 429/429
    fsopen 430/430  fsconfig 431/431  fsmount 432/432  fspick 433/433  clone3 435/435  openat2 437/437
    pidfd_getfd 438/438  mount_setattr 442/442  quotactl_fd 443/443  fchmodat2 452/452  open_tree_attr 467/467
    file_setattr 469/469
"""
"""The numbers of the system calls that the filter is about: on x86_64, and on aarch64, which lacks some."""


@dataclass(frozen=True)
class Machine:
    """A kind of processor, as the kernel's audit code names it, and its calls by name."""

    audit: int
    calls: dict[str, int]
    foreign_bit: int = 0
    """Calls from this number on speak another dialect: x32 on x86_64."""


def _calls(column: int) -> dict[str, int]:
    words = _CALLS.split()
    numbers = (each.split("/")[column] for each in words[1::2])
    return {name: int(each) for name, each in zip(words[::2], numbers, strict=True) if each}


MACHINES = {
    "x86_64": Machine(0xC000003E, _calls(0), foreign_bit=0x40000000),
    "aarch64": Machine(0xC00000B7, _calls(1)),
}
"""By the name that `platform.machine()` gives them."""

Step = tuple[int, int, int, int]
Block = list[Step]


@cache
def filter_program(*, machine: str | None = None) -> bytes:
    """The filter for this machine, or another, as bytes for `--seccomp`."""
    known = known_machine(machine)
    program: Block = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if known.foreign_bit:
        program += [(_AT_LEAST, 0, 1, known.foreign_bit), (_RETURN, 0, 0, _KILL)]
    return _assemble(program + _rules(known, _named_rules()))


def reporting_program(*, machine: str | None = None) -> bytes:
    """A filter that allows everything, and has the kernel report each call that sets a set-group-id bit."""
    rules = (
        (
            name,
            [_argument(mode), (_ANY_BIT, 0, 1, _SET_GROUP_ID), (_RETURN, 0, 0, _REPORT), _allow()],
        )
        for name, mode in _CHANGE_MODE
    )
    # Calls of another dialect are not looked at: the filter above ends who makes one.
    return _assemble([(_LOAD, 0, 0, _NUMBER), *_rules(known_machine(machine), rules)])


def known_machine(name: str | None = None) -> Machine:
    """The numbers of system calls of this machine, or of another."""
    name = name or platform.machine()
    if name not in MACHINES:
        raise SandboxError(
            f"there is no system call filter for {name} processors.",
            remedy=f"The sandbox knows {' and '.join(MACHINES)}.",
        )
    return MACHINES[name]


def _assemble(program: Block) -> bytes:
    return b"".join(struct.pack("<HBBI", *step) for step in (*program, _allow()))


def _rules(machine: Machine, named: Iterable[tuple[str, Block]]) -> Block:
    program: Block = []
    for name, block in named:
        if name in machine.calls:
            # A block loads arguments, and always ends in a verdict, so the next one finds the number loaded.
            program += [(_EQUAL, 0, len(block), machine.calls[name]), *block]
    return program


def _named_rules() -> Iterator[tuple[str, Block]]:
    yield "socket", _only(0, _INTERNET)
    yield "socketpair", _connected_pairs()
    yield "clone", _no_bits(0, _NEW_NAMESPACES)
    yield "ioctl", _file_systems_as_they_are()
    yield "fcntl", _none_of(1, _LEASE)
    yield "personality", _only(0, _PERSONALITIES)
    for name, mode in _CHANGE_MODE:
        yield name, _no_bits(mode, _SET_USER_ID)
    for name, mode in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield name, _no_bits(mode, _SET_IDS)
    yield "open", _no_bits_if(1, _CREATES, 2, _SET_IDS)
    yield "openat", _no_bits_if(2, _CREATES, 3, _SET_IDS)
    for name in _MISSING:
        yield name, [(_RETURN, 0, 0, _ERROR | _ENOSYS)]
    for name in _REFUSED:
        yield name, [_refuse()]


def _only(argument: int, allowed: tuple[int, ...]) -> Block:
    return [_argument(argument), *_if_one_of(allowed, _allow()), _refuse()]


def _none_of(argument: int, refused: tuple[int, ...]) -> Block:
    return [_argument(argument), *_if_one_of(refused, _refuse()), _allow()]


def _file_systems_as_they_are() -> Block:
    return [
        _argument(1),
        *_if_one_of(_TERMINAL_INPUT, _refuse()),
        *_if_one_of(_READS_AND_COPIES, _allow()),
        (_AND, 0, 0, _KIND),
        *_if_one_of(_OF_FILE_SYSTEMS, _refuse()),
        _allow(),
    ]


def _if_one_of(values: tuple[int, ...], verdict: Step) -> Block:
    """End with a verdict if what is loaded is one of these."""
    return [step for value in values for step in ((_EQUAL, 0, 1, value), verdict)]


def _no_bits(argument: int, bits: int) -> Block:
    return [_argument(argument), (_ANY_BIT, 0, 1, bits), _refuse(), _allow()]


def _no_bits_if(flags: int, when: int, argument: int, bits: int) -> Block:
    check = [_argument(argument), (_ANY_BIT, 0, 1, bits), _refuse()]
    return [_argument(flags), (_ANY_BIT, 0, len(check), when), *check, _allow()]


def _connected_pairs() -> Block:
    connected = _if_one_of(_CONNECTED_TYPES, _allow())
    return [_argument(1), (_AND, 0, 0, _TYPE_MASK), *connected, _refuse()]


def _argument(index: int) -> Step:
    """Load the low half of an argument: all that the kernel reads of these."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _allow() -> Step:
    return (_RETURN, 0, 0, _ALLOW)


def _refuse() -> Step:
    return (_RETURN, 0, 0, _ERROR | _EPERM)
