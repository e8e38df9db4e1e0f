"""One skill: what its page says, what comes with it, and that nothing else can be reached through it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.errors import BuildError, DocumentError, ToolError
from hookline.markdown import Skill, SkillLibrary

PAGE = """\
---
name: pdf
description: >
  Work with PDF files.
  Use when the user mentions them.
allowed-tools: Read, Bash(git:*)
license: MIT
metadata: {author: anna}
---
# PDF

Read references/forms.md first.
"""


def made(folder: Path, page: str = PAGE, **files: str) -> Path:
    """A folder with this page, and files by name; `__` in a name is a `/`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(page)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_paragraph_right_below_its_heading_describes_a_skill(tmp_path: Path) -> None:
    """With or without a line between them."""
    for page in (
        "# Notes\nHow we take\nnotes.\n\nMore.\n",
        "# Notes\n\n## Why\nHow we take\nnotes.\n",
    ):
        assert Skill.read(made(tmp_path / "notes", page)).description == "How we take notes."


def test_a_published_skill_is_read_as_it_is(tmp_path: Path) -> None:
    """All of its front matter is kept."""
    skill = Skill.read(made(tmp_path / "pdf", references__forms_md="forms"))
    assert (skill.name, skill.allowed_tools) == ("pdf", ("Read", "Bash(git:*)"))
    assert skill.description == "Work with PDF files. Use when the user mentions them."
    assert skill.body.startswith("# PDF")
    assert skill.fields["license"] == "MIT"
    assert [(each.path, each.size) for each in skill.files] == [("references/forms.md", 5)]
    assert (skill.for_models, skill.for_people) == (True, True)


def test_what_is_missing_is_taken_from_elsewhere(tmp_path: Path) -> None:
    """The name from the folder, the description from the first paragraph."""
    page = "# Release\n\nHow to make a release,\nstep by step.\n\nMore."
    skill = Skill.read(made(tmp_path / "release", page))
    assert (skill.name, skill.description) == (
        "release",
        "How to make a release, step by step.",
    )
    assert skill.allowed_tools is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("description: x\nname: a/b", r"SKILL\.md:3: a skill cannot be called 'a/b'"),
        (f"description: x\nname: {'x' * 65}", r"SKILL\.md:3: a skill cannot be called"),
        ("name: x", r"SKILL\.md: there is no description"),
        ("name: x\ndescription: y\nallowed-tools: 'Bash('", r"SKILL\.md:4: .*never closed"),
        (
            "name: x\ndescription: y\ndisable-model-invocation: perhaps",
            r"SKILL\.md:4: .*true or false",
        ),
        ("name: [", r"SKILL\.md:2: the front matter is not YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, fields: str, words: str) -> None:
    """So that its author finds it."""
    with pytest.raises(DocumentError, match=words):
        Skill.read(made(tmp_path / "x", f"---\n{fields}\n---\n"))


# --- arguments ------------------------------------------------------------------------------------


def body(tmp_path: Path, text: str) -> Skill:
    """A skill with this text."""
    return Skill.read(made(tmp_path / "s", f"---\nname: s\ndescription: d\n---\n{text}"))


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("Fix $ARGUMENTS.", "issue 7", "Fix issue 7."),
        ("Fix $ARGUMENTS.", "", "Fix ."),
        ("From $0 to $1.", "'old one' new", "From old one to new."),
        ("From $ARGUMENTS[0] to $ARGUMENTS[5].", "a b", "From a to ."),
        ("It costs $5.", "", "It costs $5."),
        ("Do it.", "now", "Do it.\n\nARGUMENTS: now"),
        ("Say $ARGUMENTS", "it's", "Say it's"),
    ],
)
def test_arguments_take_their_places(
    tmp_path: Path, text: str, arguments: str, expected: str
) -> None:
    """As in other agents; without a place they follow the text."""
    assert body(tmp_path, text).text(arguments) == expected


def test_the_folder_can_be_named(tmp_path: Path) -> None:
    """For scripts that are run from it."""
    skill = body(tmp_path, "Run ${CLAUDE_SKILL_DIR}/x.py")
    assert skill.text() == f"Run {skill.folder}/x.py"


def test_rules_may_name_the_folder(tmp_path: Path) -> None:
    """To allow the skill's own scripts, and no others."""
    page = "---\ndescription: d\nallowed-tools: Bash(${CLAUDE_SKILL_DIR}/x.py *)\n---\n"
    skill = Skill.read(made(tmp_path / "s", page))
    assert skill.allowed_tools == (f"Bash({skill.folder}/x.py *)",)


def test_commands_in_the_text_are_not_run(tmp_path: Path) -> None:
    """Some agents run what stands in !`...`; here it is text."""
    assert body(tmp_path, "Now: !`touch hacked`").text() == "Now: !`touch hacked`"


# --- files ------------------------------------------------------------------------------------------


def test_files_are_read_as_they_were(tmp_path: Path) -> None:
    """One that has changed since is not."""
    folder = made(tmp_path / "pdf", references__forms_md="forms")
    skill = Skill.read(folder)
    assert skill.read_file("references/forms.md") == "forms"
    assert skill.read_file("./references/forms.md") == "forms"
    (folder / "references/forms.md").write_text("others")
    with pytest.raises(ToolError, match="has changed since the skill was read"):
        skill.read_file("references/forms.md")
    (folder / "references/forms.md").unlink()
    with pytest.raises(ToolError, match="has changed since"):
        skill.read_file("references/forms.md")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "/etc/passwd",
        "references/../../secret.txt",
        "SKILL.md",
        "",
        "~/x",
        ".hidden",
        "a\0b",
    ],
)
def test_nothing_else_is_read(tmp_path: Path, path: str) -> None:
    """Neither outside nor inside: what is not listed is not there, and the model reads what is."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = made(tmp_path / "pdf", references__forms_md="forms")
    (folder / ".hidden").write_text("hidden")
    with pytest.raises(ToolError, match=r"has no file .* It has: references/forms\.md"):
        Skill.read(folder).read_file(path)


def test_links_lead_nowhere_outside(tmp_path: Path) -> None:
    """Neither when it is read nor later; a link inside the folder is a file."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = made(tmp_path / "pdf", v2_md="two", notes_md="notes")
    (folder / "latest.md").symlink_to("v2.md")
    (folder / "out.md").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    skill = Skill.read(folder)
    assert [each.path for each in skill.files] == ["latest.md", "notes.md", "v2.md"]
    assert skill.read_file("latest.md") == "two"
    (folder / "notes.md").unlink()
    (folder / "notes.md").symlink_to(secret)
    with pytest.raises(ToolError, match="has changed since"):
        skill.read_file("notes.md")


def test_a_page_that_is_a_link_to_elsewhere_is_no_skill(tmp_path: Path) -> None:
    """A repository cannot have any file shown by calling it SKILL.md."""
    (tmp_path / "id_rsa").write_text("key")
    (tmp_path / "x").mkdir()
    (tmp_path / "x/SKILL.md").symlink_to(tmp_path / "id_rsa")
    with pytest.raises(DocumentError, match="it leads out of its folder"):
        Skill.read(tmp_path / "x")


def test_what_is_no_text_is_said_to_be_none(tmp_path: Path) -> None:
    """With where it is, for tools that can use it."""
    folder = made(tmp_path / "pdf")
    (folder / "logo.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ToolError, match=r"'logo.png' is not text \(5 bytes\)\. It is at .*logo"):
        Skill.read(folder).read_file("logo.png")


def test_many_files_and_large_ones(tmp_path: Path) -> None:
    """Large ones are listed and not read; of very many some are counted."""
    folder = made(tmp_path / "pdf")
    with (folder / "a-large.bin").open("wb") as file:
        file.truncate(10_000_001)
    for number in range(520):
        (folder / f"f{number:03}").touch()
    skill = Skill.read(folder)
    assert (len(skill.files), skill.unlisted) == (500, 21)
    assert "- and 21 more" in skill.page()
    with pytest.raises(ToolError, match="too large"):
        skill.read_file("a-large.bin")


# --- skills from several directories ------------------------------------------------------------


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
    assert "theirs/pdf/SKILL.md: it is ignored" in problem.text
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
