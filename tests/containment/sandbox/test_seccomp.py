"""The filter as a program: run here by a small machine of our own, for both processors, whatever this one is."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment.sandbox.seccomp import MACHINES, filter_program, reporting_program
from hookline.errors import SandboxError

ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
REPORT = 0x7FC00000
PROCESSORS = sorted(MACHINES)


def verdict(program: bytes, audit: int, number: int, *args: int) -> int:
    """What the filter says of a call: the kernel's machine, as far as the filter uses it."""
    seen = struct.pack("<IIQ6Q", number, audit, 0, *(*args, 0, 0, 0, 0, 0, 0)[:6])
    steps = list(struct.iter_unpack("<HBBI", program))
    accumulator, at = 0, 0
    while True:
        code, true, false, value = steps[at]
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", seen, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            test = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[code]
            at += true if test else false


def judge(processor: str, name: str, *args: int) -> int:
    """What the filter of a processor says of a call by name."""
    machine = MACHINES[processor]
    program = filter_program(machine=processor)
    return verdict(program, machine.audit, machine.calls[name], *args)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_sockets_are_of_the_internet_only(processor: str) -> None:
    """And of the kind that asks the kernel about them."""
    families = {family: judge(processor, "socket", family, 1) for family in range(48)}
    assert [family for family, said in families.items() if said == ALLOW] == [2, 10, 16]


@pytest.mark.parametrize("processor", PROCESSORS)
def test_pairs_are_connected_ones_only(processor: str) -> None:
    """Streams and packets, with any flags; not datagrams, by either of their names."""
    kinds = {kind: judge(processor, "socketpair", 1, kind | 0x80000) for kind in range(11)}
    assert [kind for kind, said in kinds.items() if said == ALLOW] == [1, 5]
    assert judge(processor, "socketpair", 1, 2 | 0x800) == EPERM


@pytest.mark.parametrize("processor", PROCESSORS)
def test_file_systems_are_read_and_files_copied_only(processor: str) -> None:
    """No other request of their kinds passes, and no typing into a terminal; those of other kinds do."""
    copies = (0x40049409, 0x4020940D, 0xC0189436)
    reads = (0x80086601, 0x801C581F, 0xC020660B)
    terminals = (0x5401, 0x5413, 0x541B)
    for request in (*copies, *reads, *terminals, 1 << 32 | 0x5401):
        assert judge(processor, "ioctl", 3, request) == ALLOW
    for request in (0x5412, 0x541C, 1 << 32 | 0x5412):
        assert judge(processor, "ioctl", 3, request) == EPERM
    kinds = (0x58, 0x66, 0x94, 0xBC, 0xF5)
    for kind, number, direction in itertools.product(kinds, range(256), range(4)):
        request = direction << 30 | 8 << 16 | kind << 8 | number
        if request not in reads:
            assert judge(processor, "ioctl", 3, request) == EPERM


@pytest.mark.parametrize("processor", PROCESSORS)
def test_threads_and_processes_are_made_namespaces_are_not(processor: str) -> None:
    """The flags of a thread pass; each flag of a new namespace does not."""
    thread, fork = 0x003D0F00, 17
    assert judge(processor, "clone", thread) == judge(processor, "clone", fork) == ALLOW
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judge(processor, "clone", fork | bit) == EPERM
    assert judge(processor, "clone3") == ENOSYS


@pytest.mark.parametrize("processor", PROCESSORS)
def test_modes_without_the_bits_pass(processor: str) -> None:
    """Files are made and changed as usual; what is no mode is not looked at."""
    opened = 0o100 | 1
    assert judge(processor, "openat", 0, 0, opened, 0o644) == ALLOW
    assert judge(processor, "openat", 0, 0, opened, 0o4755) == EPERM
    assert judge(processor, "openat", 0, 0, 0, 0o4755) == ALLOW
    assert judge(processor, "fchmod", 3, 0o2775) == ALLOW
    assert judge(processor, "fchmod", 3, 0o4755) == EPERM


@pytest.mark.parametrize("processor", PROCESSORS)
def test_each_call_that_sets_a_set_group_id_bit_is_reported(processor: str) -> None:
    """Every call that changes a mode, by its own argument; nothing else, and no mode without the bit."""
    program, machine = reporting_program(machine=processor), MACHINES[processor]
    modes = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
    for name, number in machine.calls.items():
        for mode in (0o2755, 0o2000, 0o6755, 0o4755, 0o755):
            args = [0, 0, 0]
            args[modes.get(name, 1)] = mode
            wanted = REPORT if name in modes and mode & 0o2000 else ALLOW
            assert verdict(program, machine.audit, number, *args) == wanted


@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_s_calls_end_the_process(processor: str) -> None:
    """Their numbers mean something else."""
    program = filter_program(machine=processor)
    for other in (
        0x40000003,
        0x40000028,
        0,
        *(m.audit for n, m in MACHINES.items() if n != processor),
    ):
        assert verdict(program, other, 1) == KILL
    machine = MACHINES[processor]
    if machine.foreign_bit:
        assert verdict(program, machine.audit, machine.foreign_bit + 1) == KILL


@given(
    st.sampled_from(PROCESSORS),
    st.integers(0, 500),
    st.lists(st.integers(0, 2**64 - 1), max_size=6),
)
def test_every_call_gets_a_verdict(processor: str, number: int, args: list[int]) -> None:
    """The program always ends, in one of four ways; a call it does not speak about passes."""
    machine = MACHINES[processor]
    said = verdict(filter_program(machine=processor), machine.audit, number, *args)
    assert said in {ALLOW, EPERM, ENOSYS}
    if number not in machine.calls.values():
        assert said == ALLOW


def test_an_unknown_processor_is_named() -> None:
    """There is no filter for it, so there is no sandbox."""
    with pytest.raises(SandboxError, match="no system call filter for m68k processors"):
        filter_program(machine="m68k")
