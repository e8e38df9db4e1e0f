from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.timeout(300)
def test_no_claim_about_fuzzed_strings_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is claimed of two thousand strings is what real bash would run, and enough of them are claimed."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import shell_bash
    import shell_fuzz

    if reason := shell_bash.unusable():
        pytest.skip(reason)
    with shell_bash.Cage() as cage:
        tallies = shell_fuzz.fuzz(cage, 2000, seed=20)
    assert [wrong for tally in tallies for wrong in tally.wrong] == []
    assert sum(t.static for t in tallies) >= 0.15 * sum(t.strings for t in tallies)


def test_the_comparison_sees_a_wrong_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that says something else than bash is found out."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import shell_bash
    import shell_fuzz
    from hookline.containment import read_command

    if reason := shell_bash.unusable():
        pytest.skip(reason)
    with shell_bash.Cage() as cage:
        (ran,) = cage.traces(["find . -del\\\nete"])
    assert ran[0] == ("find", ".", "-delete")
    assert shell_fuzz.agrees(read_command("find . -delete"), ran)
    assert not shell_fuzz.agrees(read_command("find . -del ete"), ran)
    assert not shell_fuzz.agrees(read_command("find . -delete; ls"), ran)
