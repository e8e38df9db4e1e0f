"""A conformance suite for journal stores: does a store keep what `JournalStore` promises?

report = await check_store(StoreSubject(make=lambda folder: MyJournal(folder / "runs")))
assert report.ok, report
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from hookline._aio import call_in_thread as _call_in_thread  # a case is what has no underscore
from hookline.agent import Agent, AgentBuilder
from hookline.drivers import ScriptedCall, ScriptedDriver, ScriptedTurn, call, say
from hookline.errors import HooklineError, JournalError, RunInUseError, UnknownRunError, UsageError
from hookline.hooks import HookOutcome
from hookline.journal import (
    Claim,
    EarlierRun,
    InboxAnswer,
    InboxCancel,
    InboxMessage,
    JournalStore,
    PromptSubmitted,
    Record,
    SessionCreated,
    SessionTitled,
    TextDelta,
    decode,
    encode,
    post_answer,
)
from hookline.journal.session import stream_of
from hookline.playback import replay
from hookline.sessions import Sessions
from hookline.state import Decision, RunStatus
from hookline.testing.report import Deviation, Inapplicable, Mismatch, SuiteReport
from hookline.testing.report import run_cases as _run_cases
from hookline.testing.store_setup import StoreSetup, StoreSubject, Turns, give_back, story, write
from hookline.tools import tool

# --- records --------------------------------------------------------------------------------------


async def records_come_back_in_order(setup: StoreSetup) -> None:
    """Written one by one or together, a run has all of its records, in the order in which they were written."""
    records = story("r")
    claim = await setup.store.claim("r")
    for record in records[:3]:
        claim.write([record])
    await write(claim, records[3:])
    await give_back(claim)
    setup.expect("the records", records, await setup.store.read("r"))
    await setup.expect_sound()


async def what_is_committed_is_seen(setup: StoreSetup) -> None:
    """When the future is done, everybody can read the records, while the run is still claimed."""
    records = story("r")
    claim = await setup.store.claim("r")
    await write(claim, records[:2])
    setup.expect("the records so far", records[:2], await setup.store.read("r"))
    await write(claim, records[2:])
    setup.expect("all records", records, await setup.store.read("r"))


async def writing_nothing_waits_for_the_rest(setup: StoreSetup) -> None:
    """A run is there with its first record. To write nothing waits for what was written before."""
    claim = await setup.store.claim("r")
    await write(claim, [])
    setup.expect("the runs", [], await setup.store.runs())
    await setup.expect_error(
        "read of a run without records", UnknownRunError, setup.store.read("r")
    )
    claim.write(story("r"))
    await write(claim, [])
    setup.expect("the records", story("r"), await setup.store.read("r"))


async def a_run_goes_on_where_it_ended(setup: StoreSetup) -> None:
    """Claimed again, it gets more records, and nothing in between."""
    records = story("r")
    await setup.keep(records[:1], records[1:3], records[3:])
    setup.expect("the records", records, await setup.store.read("r"))
    await setup.expect_sound()


async def a_batch_is_written_whole_or_not_at_all(setup: StoreSetup) -> None:
    """A batch with a record that cannot be kept, or that is of another run, is refused with all of its records."""
    records = story("r")
    claim = await setup.store.claim("r")
    await write(claim, records[:2])
    wrong: Sequence[Record] = (
        TextDelta("r", 3, 0.0, text="x"),
        PromptSubmitted("other", 3, 0.0, text="x"),
    )
    for each in wrong:
        what = f"a batch with a {type(each).__name__} of run '{each.run_id}'"
        await setup.expect_error(what, HooklineError, write(claim, [records[2], each]))
        setup.expect("the records", records[:2], await setup.store.read("r"))
        await setup.expect_error("what follows it", HooklineError, write(claim, [records[2]]))
        await give_back(claim)
        claim = await setup.store.claim("r")


async def any_content_is_kept(setup: StoreSetup) -> None:
    """NUL, half of a surrogate pair, every script, quotes, and line breaks."""
    words = (
        "a\0b",
        "\ud800 alone",
        "Grüße, 世界 🦦",
        "\"quoted\" \\ 'single' %s $1",
        "a\r\nb\u2028c\x1b",
    )
    runs = [story(f"r{at}", prompt=text, session=f"s{at}") for at, text in enumerate(words)]
    await setup.keep(*runs)
    for records in runs:
        kept = [decode(encode(record)) for record in records]
        setup.expect("the records", kept, await setup.store.read(records[0].run_id))
    setup.expect("how many are listed", len(words), len(await setup.store.runs()))
    await setup.expect_sound()


async def large_records_are_kept(setup: StoreSetup) -> None:
    """A record of five million characters, and a batch of five thousand records."""
    long = story("long", prompt="ä" * 5_000_000)
    first = story("many", status=None)
    many = [PromptSubmitted("many", 3 + number, 2000.0, text="x" * 100) for number in range(5_000)]
    await setup.keep(long, [*first, *many])
    setup.expect("whether the long one is the same", True, await setup.store.read("long") == long)
    found = await setup.store.read("many")
    setup.expect("whether the many are the same", True, found == [*first, *many])


async def a_run_has_any_name(setup: StoreSetup) -> None:
    """Names that differ in case or a space are different names. None at all is refused."""
    for name in ("", "\ud800"):
        await setup.expect_error(f"a run named {name!r}", UsageError, setup.store.claim(name))
    names = (
        "r",
        "R",
        "r ",
        " r",
        "it's; DROP TABLE runs",
        "a/b/../c",
        "%s_*",
        "two\nlines",
        "日本",
    )
    await setup.keep(*(story(name, prompt=f"prompt of {name}") for name in names))
    listed = sorted(each.run_id for each in await setup.store.runs())
    setup.expect("the names", sorted(names), listed)
    for name in names:
        expected = story(name, prompt=f"prompt of {name}")
        setup.expect(f"the records of {name!r}", expected, await setup.store.read(name))


async def runs_do_not_mix(setup: StoreSetup) -> None:
    """Twenty runs that are written at the same time have each their own records."""
    stories = [story(f"run {number}", prompt=f"prompt {number}") for number in range(20)]

    async def one(number: int) -> None:
        claim = await setup.store.claim(f"run {number}")
        for record in stories[number]:
            await write(claim, [record])
            await asyncio.sleep(0)
        await give_back(claim)

    await asyncio.gather(*(one(number) for number in range(20)))
    for records in stories:
        setup.expect("the records", records, await setup.store.read(records[0].run_id))
    await setup.expect_sound()


# --- claims ---------------------------------------------------------------------------------------


async def a_run_is_claimed_once(setup: StoreSetup) -> None:
    """Until it is given back; another run is free meanwhile."""
    claim = await setup.store.claim("r")
    setup.expect("the run of the claim", "r", claim.run_id)
    setup.expect("its steps before a loss", None, claim.steps_before_loss)
    await setup.expect_error("a second claim", RunInUseError, setup.store.claim("r"), "r")
    await give_back(await setup.store.claim("other"))
    await write(claim, story("r")[:1])
    await setup.expect_error("a second claim", RunInUseError, setup.store.claim("r"), "r")
    await give_back(claim)
    await give_back(await setup.store.claim("r"))


async def a_run_is_claimed_once_by_all(setup: StoreSetup) -> None:
    """A second store at the same place cannot claim a run that the first has; it can read it."""
    other = setup.another()
    claim = await setup.store.claim("r")
    await write(claim, story("r")[:2])
    await setup.expect_error("a claim by the other", RunInUseError, other.claim("r"), "r")
    setup.expect("what the other reads", story("r")[:2], await other.read("r"))
    await give_back(claim)
    taken = await other.claim("r")
    await setup.expect_error("a claim by the first", RunInUseError, setup.store.claim("r"), "r")
    await write(taken, story("r")[2:])
    await give_back(taken)
    setup.expect("what the first reads", story("r"), await setup.store.read("r"))
    await setup.expect_sound(other)


async def one_of_many_gets_the_claim(setup: StoreSetup) -> None:
    """Of ten that want it at the same time."""
    asked = (setup.store.claim("r") for _ in range(10))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, RunInUseError)]
    setup.expect("how many are refused", 9, len(refused))


async def giving_back_waits_for_what_is_queued(setup: StoreSetup) -> None:
    """When others can have the run, all of its records are there; and the old claim cannot write any more."""
    records = story("r")
    claim = await setup.store.claim("r")
    for record in records:
        claim.write([record])
    await give_back(claim)
    setup.expect("the records", records, await setup.store.read("r"))
    await give_back(claim)  # a second time
    more = write(claim, [replace(records[1], seq=5)])
    await setup.expect_error("a write after it was given back", HooklineError, more)
    setup.expect("the records", records, await setup.store.read("r"))


async def a_forgotten_claim_is_given_back(setup: StoreSetup) -> None:
    """Nobody has it any more, so nobody can give it back."""
    claim = await setup.store.claim("r")
    del claim
    for number in range(100):
        if number % 20 == 0:
            gc.collect()
        await asyncio.sleep(0.01)
        try:
            await setup.store.claim("r")
        except RunInUseError:
            continue
        return
    setup.expect("whether it can be claimed again", True, False)


async def a_lost_claim_writes_nothing(setup: StoreSetup) -> None:
    """Somebody else has got the run in spite of the claim: the first to write wins, and no record is torn."""
    records = story("r")
    claim = await setup.store.claim("r")
    await write(claim, records[:2])
    await setup.lose_claim("r")
    other = await setup.store.claim("r")
    await write(other, records[2:3])
    late = [PromptSubmitted("r", 2, 2000.0, text="late")]
    for what in ("a write with a lost claim", "the next one"):
        await setup.expect_error(what, JournalError, write(claim, late))
    await give_back(claim)
    again = setup.store.claim("r")
    await setup.expect_error("a claim after the lost one was given back", RunInUseError, again)
    await write(other, records[3:])
    setup.expect("the records", records, await setup.store.read("r"))
    await setup.expect_sound()


async def a_dead_process_has_no_claim(setup: StoreSetup) -> None:
    """Its runs are free, at once or after a while, and continue where they ended."""
    kept: list[Claim] = []

    async def take(store: JournalStore) -> str:
        kept.append(await store.claim("r"))
        await write(kept[0], story("r")[:2])
        return "taken"

    setup.expect("what it does", "taken", await setup.another_process(take).look())
    while True:  # until the case has taken too long
        try:
            claim = await setup.store.claim("r")
            break
        except RunInUseError:
            await asyncio.sleep(0.05)
    await write(claim, story("r")[2:])
    await give_back(claim)
    setup.expect("the records", story("r"), await setup.store.read("r"))


# --- waiting --------------------------------------------------------------------------------------


async def a_cancelled_claim_is_not_taken(setup: StoreSetup) -> None:
    """Whenever the one who waits for it is cancelled, the next can have it."""
    await setup.store.open()
    for rounds in range(6):
        waiting = asyncio.ensure_future(setup.store.claim("r"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        waiting.cancel()
        try:
            claim = await waiting
        except asyncio.CancelledError:
            claim = await setup.store.claim("r")
        await give_back(claim)


async def a_cancelled_wait_loses_no_record(setup: StoreSetup) -> None:
    """What was handed over is written, whether or not somebody waits for it."""
    claim = await setup.store.claim("r")
    written = claim.write(story("r"))
    waiting = asyncio.ensure_future(asyncio.wrap_future(written))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    reading = asyncio.ensure_future(setup.store.read("r"))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await give_back(claim)
    setup.expect("the records", story("r"), await setup.store.read("r"))


def _questions(store: JournalStore) -> dict[str, Callable[[], Awaitable[object]]]:
    """What can be asked about a run 'r' again and again, with the same answer."""
    earlier = EarlierRun("r", 6, "no such head")
    return {
        "read": lambda: store.read("r"),
        "read_earlier": lambda: _refusal(store.read_earlier(earlier)),
        "refer": lambda: store.refer("r"),
        "runs": store.runs,
        "sessions": store.sessions,
        "post": lambda: store.post(_CANCEL),
        "inbox": lambda: store.inbox("r"),
        "delete": lambda: _refusal(store.delete("x")),
        "prune": lambda: store.prune(keep=1000),
        "check": store.check,
        "claim": lambda: _claim_shortly(store),
    }


_CANCEL = InboxCancel(run_id="r", by="ann")


async def _refusal(waiting: Awaitable[object]) -> str:
    try:
        await waiting
    except (JournalError, UnknownRunError) as error:
        return str(error)
    return "no error"


async def _claim_shortly(store: JournalStore) -> None:
    await give_back(await store.claim("r"))


def _in_a_new_loop(ask: Callable[[], Awaitable[object]]) -> object:
    async def main() -> object:
        return await ask()

    return asyncio.run(main())


async def any_event_loop_may_ask(setup: StoreSetup) -> None:
    """Also one in another thread, several at once, and code that has none."""
    await setup.keep(story("r"))
    await setup.store.post(_CANCEL)
    for what, ask in _questions(setup.store).items():
        here = await ask()
        for _ in range(2):
            there = await _call_in_thread(_in_a_new_loop, ask)
            setup.expect(f"{what} in another event loop", here, there)
        if what != "claim":
            threads = [_call_in_thread(_in_a_new_loop, ask) for _ in range(3)]
            at_once = await asyncio.gather(ask(), *threads)
            setup.expect(f"{what} in several at once", [here] * 4, at_once)
        setup.expect(f"{what} in the first one again", here, await ask())
    claim = await _call_in_thread(setup.store.claim_sync, "r")
    await setup.expect_error("a claim", RunInUseError, setup.store.claim("r"))
    await give_back(claim)
    setup.expect("the records", story("r"), await setup.store.read("r"))


_LONG_WAIT = 0.05
"""Seconds for which a method may keep the event loop waiting. It is measured several times, and the best one counts."""


async def the_event_loop_goes_on(setup: StoreSetup) -> None:
    """What waits for a disk, a network or a lock waits elsewhere."""
    await setup.keep(story("r"))
    for what, ask in _questions(setup.store).items():
        waits: list[float] = []
        while not waits or (min(waits) > _LONG_WAIT and len(waits) < 5):
            turns = Turns()
            await turns.watch(ask())
            waits.append(turns.longest_wait)
        is_blocked = min(waits) > _LONG_WAIT
        setup.expect(f"whether {what} blocks the event loop", False, is_blocked)


async def others_have_a_turn_while_a_run_is_read(setup: StoreSetup) -> None:
    """A second store at the same place has to look where the records are."""
    turns, other = Turns(), setup.another()
    await setup.keep(story("r"))
    await turns.watch(other.read("r"))
    setup.expect("whether others have a turn while a run is read", True, turns.count > 0)


async def opening_and_closing_twice_changes_nothing(setup: StoreSetup) -> None:
    """And nobody has to open a store."""
    await setup.keep(story("r"))
    await setup.store.open()
    await setup.store.open()
    setup.expect("the records", story("r"), await setup.store.read("r"))
    await setup.store.close()
    await setup.store.close()


async def a_closed_store_is_closed(setup: StoreSetup) -> None:
    """What was claimed is given back, so it is not written any more; and whatever is asked is refused."""
    records = story("r")
    claim = await setup.store.claim("r")
    await write(claim, records[:2])
    await setup.store.close()
    late = write(claim, records[2:])
    await setup.expect_error("a write after the store was closed", HooklineError, late)
    await give_back(claim)
    for what, ask in _questions(setup.store).items():
        await setup.expect_error(f"{what} after the store was closed", UsageError, ask())


async def another_process_has_what_was_written(setup: StoreSetup) -> None:
    """One that was there before. It cannot have a run that is claimed here, nor delete it."""

    async def look(store: JournalStore) -> str:
        found = [encode(record).decode() for record in await store.read("r")]
        for ask in (store.claim, store.delete):
            try:
                await ask("driven")
            except RunInUseError:
                found.append("in use")
        await store.close()
        return "\n".join(found)

    process = setup.another_process(look)
    await setup.keep(story("r"))
    claim = await setup.store.claim("driven")
    await write(claim, story("driven")[:2])
    lines = [encode(record).decode() for record in story("r")]
    found = (await process.look()).splitlines()
    setup.expect("what another process finds", [*lines, "in use", "in use"], found)
    await give_back(claim)


async def what_was_written_is_there_again(setup: StoreSetup) -> None:
    """After it was closed, which writes what is queued and gives back what is claimed."""
    again = setup.another()
    claim = await setup.store.claim("r")
    written = [claim.write([record]) for record in story("r")]
    await setup.store.close()
    setup.expect("whether all is written", [None] * 5, [each.result() for each in written])
    setup.expect("the records", story("r"), await again.read("r"))
    await give_back(await again.claim("r"))
    await setup.expect_sound(again)


# --- lists ----------------------------------------------------------------------------------------


async def a_run_that_is_not_there(setup: StoreSetup) -> None:
    """Whoever asks for it gets UnknownRunError, with its name."""
    store = setup.store
    for what, asked in (
        ("read", store.read("x")),
        ("refer", store.refer("x")),
        ("delete", store.delete("x")),
        ("post", store.post(InboxCancel(run_id="x", by="ann"))),
    ):
        await setup.expect_error(what, UnknownRunError, asked, "x")


async def the_list_says_what_the_records_say(setup: StoreSetup) -> None:
    """The newest first, by session, by status, and not more than were asked for."""
    await setup.keep(
        story("old", at=1000.0, session="s", prompt="do it"),
        story("new", at=3000.0, status=None),
        story("mid", at=2000.0, session="s", status=RunStatus.PAUSED, parent="old"),
    )
    store = setup.store
    listed = await store.runs()
    setup.expect("the order", ["new", "mid", "old"], [each.run_id for each in listed])
    old = listed[-1]
    found = (old.session_id, old.agent_id, old.status, old.prompt, old.records, old.started_at)
    expected = ("s", "agent", RunStatus.COMPLETED, "do it", 5, 1000.0)
    setup.expect("what it says of a run", expected, found)
    setup.expect("its parent", "old", listed[1].parent_run_id)
    of_session = [each.run_id for each in await store.runs(session_id="s")]
    setup.expect("the runs of a session", ["mid", "old"], of_session)
    paused = [each.run_id for each in await store.runs(status=RunStatus.PAUSED)]
    setup.expect("the paused runs", ["mid"], paused)
    setup.expect("a limit", ["new"], [each.run_id for each in await store.runs(limit=1)])
    limited = [each.run_id for each in await store.runs(session_id="s", limit=1)]
    setup.expect("a limit of the runs of a session", ["mid"], limited)
    limited = [each.run_id for each in await store.runs(status=RunStatus.PAUSED, limit=1)]
    setup.expect("a limit of the paused runs", ["mid"], limited)
    setup.expect("a limit of zero", [], await store.runs(limit=0))
    await setup.expect_error("a negative limit", UsageError, store.runs(limit=-1))
    setup.expect("what it continues", None, old.continues)
    await setup.keep(story("later", at=4000.0, continues=await store.refer("old")))
    (later,) = await store.runs(limit=1)
    setup.expect("what a later run continues", "old", later.continues)


async def sessions_are_a_list_of_their_own(setup: StoreSetup) -> None:
    """The one that was written last first; `runs` has none of them."""
    for at, name in ((1000.0, "a"), (2000.0, "b")):
        stream = stream_of(name)
        created = SessionCreated(run_id=stream, seq=0, at=at, session_id=name, title=f"T{name}")
        await setup.keep([created])
    listed = await setup.store.sessions()
    found = [(each.id, each.title, each.version) for each in listed]
    setup.expect("the sessions", [("b", "Tb", 1), ("a", "Ta", 1)], found)
    setup.expect("a limit", ["b"], [each.id for each in await setup.store.sessions(limit=1)])
    setup.expect("a limit of zero", [], await setup.store.sessions(limit=0))
    await setup.expect_error("a negative limit", UsageError, setup.store.sessions(limit=-1))
    setup.expect("the runs", [], await setup.store.runs())
    await setup.keep([SessionTitled(run_id=stream_of("a"), seq=1, at=3000.0, title="Last")])
    listed = await setup.store.sessions()
    setup.expect("the order after a change", ["a", "b"], [each.id for each in listed])


# --- runs that continue others --------------------------------------------------------------------


async def a_reference_names_the_records(setup: StoreSetup) -> None:
    """All of a run, or its first records. What is written later does not change it."""
    store, records = setup.store, story("r")
    await setup.keep(records[:3])
    whole, part = await store.refer("r"), await store.refer("r", 2)
    named = [(each.run_id, each.records) for each in (whole, part)]
    setup.expect("what they name", [("r", 3), ("r", 2)], named)
    for count in (4, 0, -1):
        await setup.expect_error(f"refer to {count} of 3", JournalError, store.refer("r", count))
    setup.expect("whether the heads differ", True, whole.head != part.head)
    await setup.keep(records[3:])
    setup.expect("the same reference, later", whole, await store.refer("r", 3))
    setup.expect("the records it names", records[:3], await store.read_earlier(whole))
    setup.expect("the first two", records[:2], await store.read_earlier(part))


async def a_wrong_reference_is_damage(setup: StoreSetup) -> None:
    """Of a run that is not there, of more records than it has, and with another head; `check` finds it too."""
    store = setup.store
    await setup.keep(story("r"))
    right = await store.refer("r")
    wrong = replace(right, head=right.head[::-1])
    for each in (EarlierRun("x", 1, right.head), replace(right, records=6), wrong):
        await setup.expect_error(f"read_earlier({each})", JournalError, store.read_earlier(each))
    await setup.expect_sound()
    await setup.keep(story("later", continues=wrong))
    report = await store.check()
    harmed = [each.run_id for each in report.damage]
    setup.expect("the damaged runs", ["later"], harmed, "A wrong chain head is damage.")


async def a_continued_run_is_not_deleted_alone(setup: StoreSetup) -> None:
    """The error names the later runs; `with_later` deletes them too, to the last."""
    store = setup.store
    await setup.keep(story("one"))
    await setup.keep(story("two", continues=await store.refer("one")))
    await setup.keep(story("three", continues=await store.refer("two")), story("other"))
    await setup.expect_error("delete", JournalError, store.delete("one"), "two")
    setup.expect("how many runs are left", 4, len(await store.runs()))
    gone = await store.delete("one", with_later=True)
    setup.expect("what is deleted", ["one", "three", "two"], sorted(gone))
    setup.expect("what is left", ["other"], [each.run_id for each in await store.runs()])
    await setup.expect_sound()


async def a_later_run_that_is_claimed_is_not_deleted(setup: StoreSetup) -> None:
    """Nor what it continues, by `delete` or by `prune`."""
    store = setup.store
    await setup.keep(story("one"))
    await setup.keep(story("two", continues=await store.refer("one")))
    claim = await store.claim("two")
    both = store.delete("one", with_later=True)
    await setup.expect_error("delete with a later run that is claimed", RunInUseError, both, "two")
    setup.expect("what prune deletes", [], await store.prune(keep=0, unfinished=True))
    setup.expect("how many runs are left", 2, len(await store.runs()))
    await give_back(claim)
    setup.expect("the records", 5, len(await store.read("two")))
    await setup.expect_sound()


async def a_run_that_another_store_drives_is_not_deleted(setup: StoreSetup) -> None:
    """Nor with what it belongs to, by `delete` or by `prune`."""
    other = setup.another()
    await setup.keep(story("r"))
    claim = await setup.store.claim("r/0")
    await write(claim, story("r/0", parent="r", status=None))
    for name in ("r/0", "r"):
        what = f"delete of '{name}' by another store"
        await setup.expect_error(what, RunInUseError, other.delete(name), "r/0")
    setup.expect("what prune deletes", [], await other.prune(keep=0, unfinished=True))
    setup.expect("how many runs are left", 2, len(await setup.store.runs()))
    await give_back(claim)
    setup.expect("what is deleted", ["r", "r/0"], sorted(await other.delete("r")))
    await setup.expect_sound()


async def a_run_cannot_continue_a_deleted_one(setup: StoreSetup) -> None:
    """It was deleted after the later run had read it."""
    await setup.keep(story("one"))
    earlier = await setup.store.refer("one")
    await setup.store.delete("one")
    late = story("two", continues=earlier)
    await setup.expect_error("its first records", JournalError, setup.keep(late), "one")
    setup.expect("the runs", [], await setup.store.runs())


# --- the inbox ------------------------------------------------------------------------------------


def _answer(decision: Decision, question: str = "q", fingerprint: str = "f") -> InboxAnswer:
    return InboxAnswer(
        run_id="r", question=question, fingerprint=fingerprint, decision=decision, by="ann"
    )


async def messages_wait_in_order(setup: StoreSetup) -> None:
    """For the runs that are asked about, while somebody has claimed the run, as often as they are read."""
    store = setup.store
    await setup.keep(story("r", status=None), story("other", status=None))
    claim = await store.claim("r")
    sent: list[InboxMessage] = [
        _answer(Decision.allow(), "q1"),
        _answer(Decision.deny("no\0 \N{OTTER}"), "q2"),
        InboxCancel(run_id="r", by="bob", reason="late"),
    ]
    for message in sent:
        await store.post(message)
    await store.post(InboxCancel(run_id="other", by="bob"))
    await give_back(claim)
    for _ in range(2):
        # A store with roles adds the role of whoever posted a message.
        kept = [replace(each, role="") for each in await store.inbox("r")]
        setup.expect("the messages of a run", sent, kept)
    both = await store.inbox("other", "r")
    setup.expect("those of both runs", 4, len(both))
    setup.expect("those of no run", [], await store.inbox())
    await setup.expect_sound()


async def the_first_answer_counts(setup: StoreSetup) -> None:
    """The same one again adds nothing; another is an error that shows the first. So is a second cancellation."""
    store = setup.store
    await setup.keep(story("r", status=None))
    for by in ("ann", "bob"):
        await store.post(replace(_answer(Decision.deny("not now")), by=by))
    await setup.expect_error(
        "another answer", UsageError, store.post(_answer(Decision.allow())), "deny", "not now"
    )
    edit = _answer(Decision.edit(amount=0), "q2")
    await setup.expect_error("an edit", UsageError, store.post(edit))
    setup.expect("how many messages there are", 1, len(await store.inbox("r")))
    for by in ("ann", "bob"):
        await store.post(InboxCancel(run_id="r", by=by))
    setup.expect("how many messages there are", 2, len(await store.inbox("r")))


async def an_answer_is_about_one_call(setup: StoreSetup) -> None:
    """With another fingerprint it is about another call, and both are kept."""
    await setup.keep(story("r", status=None))
    for fingerprint, decision in (("f", Decision.allow()), ("g", Decision.deny("no"))):
        await setup.store.post(_answer(decision, fingerprint=fingerprint))
    kept = [
        each.fingerprint for each in await setup.store.inbox("r") if isinstance(each, InboxAnswer)
    ]
    setup.expect("the fingerprints", ["f", "g"], kept)


async def of_two_answers_at_once_one_counts(setup: StoreSetup) -> None:
    """Whoever is second gets the error, from this store or from another at the same place."""
    await setup.keep(story("r", status=None))
    stores = [setup.store]
    try:
        stores.append(setup.another())
    except Inapplicable:
        stores.append(setup.store)
    for number in range(5):
        question = f"q{number}"
        posted = [
            stores[0].post(_answer(Decision.allow(), question)),
            stores[1].post(_answer(Decision.deny("no"), question)),
        ]
        outcomes = await asyncio.gather(*posted, return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, UsageError)]
        setup.expect("how many are refused", 1, len(refused))
    setup.expect("how many are kept", 5, len(await setup.store.inbox("r")))


# --- deleting -------------------------------------------------------------------------------------


async def a_run_is_deleted_with_all_that_belongs_to_it(setup: StoreSetup) -> None:
    """Children, messages, and the name, which a new run may have."""
    store = setup.store
    await setup.keep(story("r"), story("r/0", parent="r"), story("r/0/1", parent="r/0"), story("x"))
    await store.post(InboxCancel(run_id="r", by="ann"))
    gone = await store.delete("r")
    setup.expect("what is deleted", ["r", "r/0", "r/0/1"], sorted(gone))
    setup.expect("what is left", ["x"], [each.run_id for each in await store.runs()])
    setup.expect("its messages", [], await store.inbox("r"))
    again = story("r", prompt="again")
    await setup.keep(again)
    setup.expect("the records of a new run of that name", again, await store.read("r"))
    await setup.expect_sound()


async def a_child_is_not_deleted_alone(setup: StoreSetup) -> None:
    """While its parent is not over, which would start it again. The error names the parent."""
    store = setup.store
    for parent, status in (("died", None), ("waits", RunStatus.PAUSED)):
        await setup.keep(story(parent, status=status), story("child", parent=parent))
        alone = store.delete("child")
        await setup.expect_error("delete of a child", JournalError, alone, parent)
        setup.expect("how many runs are left", 2, len(await store.runs()))
        setup.expect("what is deleted", ["child", parent], sorted(await store.delete(parent)))
    await setup.keep(story("over"), story("child", parent="over"))
    setup.expect("what is deleted", ["child"], await store.delete("child"))
    await setup.expect_sound()


async def a_session_is_deleted_with_its_runs(setup: StoreSetup) -> None:
    """All or none of them."""
    store, stream = setup.store, stream_of("s")
    created = SessionCreated(run_id=stream, seq=0, at=1000.0, session_id="s")
    await setup.keep([created], story("s-1", session="s"), story("alone"))
    claim = await store.claim("s-1")
    await setup.expect_error("delete while a run is claimed", RunInUseError, store.delete(stream))
    setup.expect("how many runs are left", 2, len(await store.runs()))
    setup.expect("how many sessions are left", 1, len(await store.sessions()))
    await give_back(claim)
    setup.expect("what is deleted", ["s-1", stream], sorted(await store.delete(stream)))
    setup.expect("the sessions", [], await store.sessions())
    await setup.expect_sound()


async def pruning_keeps_what_is_wanted(setup: StoreSetup) -> None:
    """The newest, and runs that are not over, claimed, or continued by one that is kept."""
    store = setup.store
    await setup.expect_error("prune without a limit", UsageError, store.prune())
    await setup.keep(
        story("old", at=1000.0),
        story("old/0", at=1100.0, parent="old"),
        story("continued", at=1200.0),
        story("waits", at=1300.0, status=RunStatus.PAUSED),
        story("driven", at=1400.0),
        story("newer", at=1500.0),
    )
    await setup.keep(story("newest", at=9000.0, continues=await store.refer("continued")))
    setup.expect("what is old enough", [], await store.prune(older_than=1e12))
    claim = await store.claim("driven")
    gone = await store.prune(older_than=10.0, keep=2)
    setup.expect("what is deleted", ["old", "old/0"], sorted(gone))
    await give_back(claim)
    gone = await store.prune(keep=0, unfinished=True)
    left = ["continued", "driven", "newer", "newest", "waits"]
    setup.expect("what is deleted in the end", left, sorted(gone))
    await setup.expect_sound()


async def pruning_goes_by_age(setup: StoreSetup) -> None:
    """In seconds or as a timedelta, since the last record. What is negative is refused."""
    store, now = setup.store, time.time()
    await setup.keep(
        story("old", at=now - 7200), story("mid", at=now - 3600), story("new", at=now - 600)
    )
    for limit, gone in (
        (timedelta(days=1), []),
        (timedelta(hours=1, minutes=30), ["old"]),
        (86400.0, []),
        (1800.0, ["mid"]),
        (0, ["new"]),
    ):
        setup.expect(f"what is older than {limit}", gone, await store.prune(older_than=limit))
    negative: tuple[dict[str, Any], ...] = (
        {"keep": -1},
        {"older_than": -1.0},
        {"older_than": timedelta(days=-1), "keep": 1},
    )
    for limits in negative:
        await setup.expect_error(f"prune with {limits}", UsageError, store.prune(**limits))


# --- damage and copies ----------------------------------------------------------------------------


async def damage_is_found(setup: StoreSetup) -> None:
    """`check` names the run, and `read` refuses it; other runs can be read."""
    await setup.keep(story("r"), story("other"))
    await setup.expect_sound()
    await setup.damage("r")
    report = await setup.store.check()
    setup.expect("whether check() finds it", False, report.ok)
    await setup.expect_error("read", JournalError, setup.store.read("r"), "r")
    setup.expect("the other run", story("other"), await setup.store.read("other"))


async def a_missing_run_is_noticed(setup: StoreSetup) -> None:
    """`check` knows what was created and what was deleted: runs, children and sessions."""
    stream = stream_of("s")
    created = SessionCreated(run_id=stream, seq=0, at=1000.0, session_id="s")
    runs = (story("r"), story("r/0", parent="r"), story("gone"), story("deleted"))
    await setup.keep(*runs, [created])
    await setup.store.delete("deleted")
    await setup.expect_sound()
    for name in ("gone", "r/0", stream):
        await setup.lose_run(name)
        report = await setup.store.check()
        is_missed = not report.ok and name in str(report)
        setup.expect(f"whether check() misses '{name}'", True, is_missed)
    setup.expect("the other run", story("r"), await setup.store.read("r"))


async def a_check_counts_what_it_has_seen(setup: StoreSetup) -> None:
    """Runs, sessions and records."""
    await setup.keep(story("a"), story("b", status=None))
    report = await setup.store.check()
    setup.expect("runs and records", (2, 8, True), (report.runs, report.records, report.ok))


async def a_backup_replaces_nothing(setup: StoreSetup) -> None:
    """It makes a new file with all runs and messages, or an error says what to use instead."""
    await setup.keep(story("r"))
    await setup.store.post(_CANCEL)
    path = setup.place / "the copy"
    try:
        await setup.store.backup(path)
    except JournalError as error:
        setup.expect("whether the error says what to do", True, bool(error.remedy))
        return
    setup.expect("whether there is a copy", True, path.exists())
    content = path.read_bytes()
    setup.expect("whether the copy is empty", False, not content)
    await setup.expect_error("a second backup", JournalError, setup.store.backup(path))
    setup.expect("whether the copy is the same", True, path.read_bytes() == content)
    setup.expect("the records", story("r"), await setup.store.read("r"))
    copy = setup.restore(path)
    if copy is not None:
        setup.expect("the records in the copy", story("r"), await copy.read("r"))
        setup.expect("the messages in the copy", [_CANCEL], await copy.inbox("r"))
        await setup.expect_sound(copy)
        await copy.close()


# --- agents and sessions --------------------------------------------------------------------------


async def an_agent_pauses_and_continues(setup: StoreSetup) -> None:
    """Its run waits for an answer from the inbox, ends, and is replayed from the record."""
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def agent(*turns: ScriptedTurn | ScriptedCall) -> Agent:
        builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(pay)
        builder.on_before_tool_use(lambda _: HookOutcome.ask("sure?"), name="ask", tier="policy")
        return builder.with_journal(setup.store).build()

    paused = await agent(call("pay", amount=5)).run("go", run_id="r")
    setup.expect("how it is", RunStatus.PAUSED, paused.status)
    question = paused.pending[0].id
    await post_answer(setup.store, "r", question, Decision.allow(), by="ann")
    result = await agent(say("done")).resume("r")
    setup.expect(
        "how it ended", (RunStatus.COMPLETED, "done", [5]), (result.status, result.text, paid)
    )
    setup.expect("its records", list(result.records), await setup.store.read("r"))
    replayed = await replay(setup.store, "r", agent())
    setup.expect("whether it is replayed", True, replayed.identical, str(replayed))
    await setup.expect_sound()


async def a_session_has_one_conversation(setup: StoreSetup) -> None:
    """Three runs, each with what was said before; one is rewound, and all are deleted."""
    builder = AgentBuilder().with_driver(ScriptedDriver([say("a"), say("b"), say("c")]))
    agent = builder.with_journal(setup.store).build()
    session = await Sessions(setup.store).create(id="s")
    for prompt in ("one", "two"):
        await session.run(agent, prompt)
    await session.rewind(to=1)
    await session.run(agent, "three")
    again = await Sessions(setup.store).get("s")
    said = [message.text for message in again.state.messages]
    setup.expect("the conversation", ["one", "a", "three", "c"], said)
    await setup.expect_sound()
    await session.delete()
    setup.expect("the runs", [], await setup.store.runs())


StoreCheck: TypeAlias = Callable[[StoreSetup], Awaitable[None]]
_SHARED = {"write", "give_back", "replay", "post_answer"}

CASES: dict[str, StoreCheck] = {
    name.replace("_", " "): each
    for name, each in list(globals().items())
    if inspect.iscoroutinefunction(each) and not name.startswith("_") and name not in _SHARED
}
"""Every case, by name: the public async functions above."""


# --- the suite ------------------------------------------------------------------------------------


_PATIENCE = 60.0
"""Seconds after which a case is taken to hang."""


class StoreCase(msgspec.Struct, frozen=True):
    """One case of the suite: `await case.check(StoreSubject(make=...))`."""

    name: str

    async def check(self, subject: StoreSubject) -> str:
        """Raises an AssertionError that says what is wrong. Gives a reason when the case does not apply."""
        with tempfile.TemporaryDirectory() as folder:
            setup = StoreSetup(subject, Path(folder), self.name)
            try:
                async with asyncio.timeout(_PATIENCE):
                    await CASES[self.name](setup)
            except Inapplicable as reason:
                return str(reason)
            except TimeoutError:
                late = f"none within {_PATIENCE:g} s"
                raise Mismatch(Deviation(self.name, "the case", "an end", late)) from None
            finally:
                await setup.close()
        return ""

    @property
    def meaning(self) -> str:
        """What it is about."""
        return CASES[self.name].__doc__ or self.name

    def __str__(self) -> str:
        return self.name


def store_cases() -> tuple[StoreCase, ...]:
    """Every case: for `pytest.mark.parametrize("case", store_cases(), ids=str)`."""
    return tuple(map(StoreCase, CASES))


async def check_store(subject: StoreSubject, *, only: Collection[str] = ()) -> SuiteReport:
    """Put a store through every case, each with a place of its own. `only` names the cases to check."""
    for name in only:
        if name not in CASES:
            raise UsageError(
                f"there is no case '{name}'.", remedy=f"There are: {', '.join(CASES)}."
            )
    wanted = [case for case in store_cases() if not only or case.name in only]
    return await _run_cases({case.name: partial(case.check, subject) for case in wanted})
