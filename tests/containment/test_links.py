"""Where links lead: as the kernel says, and however many there are."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.containment import FileJail
from hookline.containment.links import MOST_LINKS, link_out_of, real_path
from hookline.permissions.paths import Root

NAMES = st.sampled_from(["a", "b", "c", "l0", "l1", "l2", "..", ".", ""])
WAYS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)


def chain(directory: Path, length: int, end: str) -> Path:
    """Links that lead to each other, and the last one somewhere."""
    for number in range(length):
        (directory / f"link{number}").symlink_to(
            f"link{number + 1}" if number < length - 1 else end
        )
    return directory / "link0"


def by_kernel(path: str) -> str | None:
    """What the kernel opens, or nothing."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_PATH)
        try:
            return os.readlink(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    return None


@given(targets=st.lists(WAYS, min_size=3, max_size=3), path=WAYS)
@example(targets=["a", "l0/..", "l1/b"], path="l2/../l0/b")
@example(targets=["l0", "l2", "l1"], path="l1/a")
def test_a_path_leads_where_the_kernel_goes(targets: list[str], path: str) -> None:
    """And nowhere else, whatever links are on the way."""
    with tempfile.TemporaryDirectory() as folder:
        top = os.path.realpath(folder)
        for name in ("a/b/c", "b", "c/a"):
            os.makedirs(f"{top}/{name}")
        for number, target in enumerate(targets):
            os.symlink(target or ".", f"{top}/l{number}")
        there = by_kernel(f"{top}/{path}")
        if there is not None:
            assert real_path(f"{top}/{path}") == there
        else:
            assert real_path(f"{top}/{path}").startswith("/")


def test_a_relative_path_begins_at_the_current_directory(tmp_path: Path) -> None:
    """As everywhere."""
    (tmp_path / "link").symlink_to("file")
    with contextlib.chdir(tmp_path):
        assert real_path("link") == real_path(tmp_path / "file")


@pytest.mark.parametrize("through", ["hooks", "lfs", "objects/ab"])
def test_a_link_to_where_nobody_looks_leads_out(tmp_path: Path, through: str) -> None:
    """In these directories links are not searched, as git prints nothing of them; by a link it does."""
    git, secret = tmp_path / ".git", tmp_path / "secret"
    (git / through / "info").mkdir(parents=True)
    (git / "refs").mkdir()
    secret.touch()
    (git / through / "info" / "grafts").symlink_to(secret)
    assert link_out_of(str(git)) is None
    (git / "within").symlink_to("refs")
    assert link_out_of(str(git)) is None
    (git / "info").symlink_to(f"{through}/info")
    assert link_out_of(str(git)) == "info"


def test_more_links_than_the_kernel_follows_are_no_error_anywhere(tmp_path: Path) -> None:
    """Python's own way to resolve them is a recursion."""
    (tmp_path / "end").write_text("x")
    exact = tmp_path / "exact"
    exact.mkdir()
    assert real_path(chain(exact, MOST_LINKS, "../end")) == str(tmp_path / "end")
    (tmp_path / "long").mkdir()
    start = chain(tmp_path / "long", 1_200, "../end")
    assert by_kernel(str(start)) is None
    assert os.path.dirname(real_path(start)) == str(tmp_path / "long")
    (tmp_path / ".vscode").symlink_to("long/link0")
    with contextlib.closing(FileJail(tmp_path)) as jail:
        jail.write_text("other", "y")
    assert link_out_of(str(tmp_path / "long")) == "link1160"
    assert Root(tmp_path).place("long/link0") is not None
