"""What an integrity check found, for people to read."""

from __future__ import annotations

import msgspec

from hookline.journal.chain import Damage


class CheckReport(msgspec.Struct, frozen=True):
    """What was looked at, and everything that is wrong with it. Printed, it is a page to read."""

    journal: str
    runs: int
    records: int
    damage: tuple[Damage, ...] = ()
    """In the records, by run."""
    file_damage: tuple[str, ...] = ()
    """In the file itself, in the words of SQLite."""

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damage and not self.file_damage

    def __str__(self) -> str:
        looked_at = f"{self.journal}: {_count(self.runs, 'run')}, {_count(self.records, 'record')}"
        if self.ok:
            return f"{looked_at}, no damage"
        harmed = len({damage.run_id for damage in self.damage})
        lines = [f"{looked_at}, damaged ({_count(harmed, 'run')})"]
        lines += [f"  {damage}" for damage in self.damage]
        lines += [f"  the file itself: {words}" for words in self.file_damage]
        return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
