"""Replay: the same run again, without a model, a tool or a trace."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from rehearsal import Case, World, cases, recorded

from hookline.rehearse import replay


@settings(max_examples=150, deadline=None)
@given(case=cases)
def test_a_run_replayed_with_the_same_agent_is_identical(case: Case) -> None:
    """Whatever the script, the hooks and the answers were; nothing is used, asked or written."""

    async def main() -> None:
        tape, _ = await recorded(case)
        before = {run_id: list(lines) for run_id, lines in tape.lines.items()}
        claims = tape.claims
        again = World(case)
        replayed = await replay(tape, "run", again.agent(), children={"helper": again.child()})
        assert replayed.identical, replayed
        assert (again.used, again.asked, tape.lines, tape.claims) == ([], 0, before, claims)

    asyncio.run(main())
