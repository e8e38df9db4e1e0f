"""Skills of several directories: which one counts, and that one mistake does not take the others down."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.errors import BuildError
from hookline.markdown import SkillLibrary


def skill(folder: Path, name: str = "", says: str = "Do it.") -> Path:
    """A skill in a folder, by the folder's name unless it has another."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name or folder.name}\ndescription: d\n---\n{says}"
    )
    return folder


def test_skills_lie_at_any_depth_and_own_what_is_below_them(tmp_path: Path) -> None:
    """A folder with a page is a skill, and a page below it is one of its files."""
    skill(tmp_path / "a")
    skill(tmp_path / "group/sub/b")
    skill(tmp_path / "a/examples/inner")
    skill(tmp_path / "node_modules/c")
    (tmp_path / "empty").mkdir()
    library = SkillLibrary(tmp_path)
    assert list(library.skills) == ["a", "b"]
    assert [each.path for each in library.skills["a"].files] == ["examples/inner/SKILL.md"]


def test_the_page_may_be_in_small_letters(tmp_path: Path) -> None:
    """As some write it."""
    skill(tmp_path / "a").joinpath("SKILL.md").rename(tmp_path / "a/skill.md")
    (found,) = SkillLibrary(tmp_path)
    assert (found.name, found.files) == ("a", ())


def test_a_directory_may_be_a_skill_itself(tmp_path: Path) -> None:
    """Then it is the only one."""
    assert list(SkillLibrary(skill(tmp_path / "alone")).skills) == ["alone"]


def test_earlier_directories_go_before_later_ones(tmp_path: Path) -> None:
    """What is left out is said, with both places."""
    skill(tmp_path / "mine/pdf", says="mine")
    skill(tmp_path / "theirs/pdf", says="theirs")
    skill(tmp_path / "theirs/more", "git")
    library = SkillLibrary(tmp_path / "mine", tmp_path / "theirs")
    assert library.skills["pdf"].body == "mine"
    assert list(library.skills) == ["pdf", "git"]
    (problem,) = library.problems
    assert "theirs/pdf/SKILL.md: it is left out" in problem.text
    assert "mine/pdf is called 'pdf' too, and comes first" in problem.text


def test_the_same_directory_twice_is_no_clash(tmp_path: Path) -> None:
    """Nor is a link to a skill that is there already."""
    skill(tmp_path / "pdf")
    (tmp_path / "z").symlink_to(tmp_path / "pdf")
    library = SkillLibrary(tmp_path, [tmp_path])
    assert (list(library.skills), library.problems) == (["pdf"], [])


def test_a_link_to_a_skill_is_one_and_other_links_are_not_followed(tmp_path: Path) -> None:
    """As installers make them."""
    skill(tmp_path / "store/pdf")
    skill(tmp_path / "elsewhere/deep/git")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/pdf").symlink_to(tmp_path / "store/pdf")
    (tmp_path / "skills/all").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "skills/round").symlink_to(tmp_path / "skills")
    assert list(SkillLibrary(tmp_path / "skills").skills) == ["pdf"]


def test_a_mistake_takes_no_others_down(tmp_path: Path) -> None:
    """It is a problem with file and line."""
    skill(tmp_path / "good")
    skill(tmp_path / "bad").joinpath("SKILL.md").write_text("---\nname: x\ntools: [a\n---\n")
    library = SkillLibrary(tmp_path)
    assert list(library.skills) == ["good"]
    (problem,) = library.problems
    assert "bad/SKILL.md:3: the front matter is not YAML" in problem.text


def test_names_are_found_in_any_case(tmp_path: Path) -> None:
    """As models write them, unless that is ambiguous."""
    skill(tmp_path / "1", "PDF")
    skill(tmp_path / "2", "Pdf")
    skill(tmp_path / "3", "git")
    library = SkillLibrary(tmp_path)
    assert library.get("GIT") is library.skills["git"]
    assert library.get("/git ") is library.skills["git"]
    assert library.get("PDF") is library.skills["PDF"]
    assert library.get("pdf") is None


def test_some_of_them(tmp_path: Path) -> None:
    """By name; a name that none has is an error that says who asked."""
    skill(tmp_path / "pdf")
    skill(tmp_path / "git")
    library = SkillLibrary(tmp_path)
    assert list(library.only(["pdf"]).skills) == ["pdf"]
    with pytest.raises(BuildError, match=r"a\.md: there is no skill 'x'\. Skills: git, pdf\."):
        library.only(["x"], "a.md")


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Better than an agent without its skills."""
    with pytest.raises(BuildError, match=r"there is no directory .*nowhere"):
        SkillLibrary(tmp_path / "nowhere")
    with pytest.raises(BuildError, match="7 is not a directory of skills"):
        SkillLibrary(7)  # type: ignore[arg-type]
