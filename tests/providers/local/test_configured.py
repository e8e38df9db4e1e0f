from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hookline.providers.local.weights.configured import Place, configured

pytestmark = pytest.mark.usefixtures("unconfigured")


def indexes() -> list[str]:
    """The indexes that were found, in order."""
    return [place.address for place in configured().places if place.is_index]


def links() -> list[str]:
    """The folders and pages of links that were found, in order."""
    return [place.address for place in configured().places if not place.is_index]


def test_nothing_is_configured_unless_somebody_did() -> None:
    """There is no index that we would pick for the user."""
    assert configured().places == ()


def test_the_environment_of_both_installers(unconfigured: pytest.MonkeyPatch) -> None:
    """Each address once; uv may give its indexes a name, and commas stand between its links."""
    unconfigured.setenv("PIP_INDEX_URL", "https://a/simple")
    unconfigured.setenv("PIP_EXTRA_INDEX_URL", "https://b/simple https://c/simple?x=1")
    unconfigured.setenv("UV_INDEX", "mine=https://d/simple https://b/simple")
    unconfigured.setenv("UV_DEFAULT_INDEX", "https://e/simple?token=1")
    unconfigured.setenv("PIP_FIND_LINKS", "/one /two")
    unconfigured.setenv("UV_FIND_LINKS", "/three,/one")
    assert indexes() == [
        "https://a/simple",
        "https://b/simple",
        "https://c/simple?x=1",
        "https://d/simple",
        "https://e/simple?token=1",
    ]
    assert links() == ["/one", "/two", "/three"]


@pytest.mark.parametrize("variable", ["PIP_NO_INDEX", "UV_NO_INDEX"])
def test_somebody_may_want_no_index(unconfigured: pytest.MonkeyPatch, variable: str) -> None:
    """Then only links are left."""
    unconfigured.setenv("PIP_INDEX_URL", "https://a/simple")
    unconfigured.setenv("PIP_FIND_LINKS", "/one")
    unconfigured.setenv(variable, "1")
    assert configured().places == (Place("/one", False),)


def test_pips_own_file(unconfigured: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With several addresses on several lines, a percent sign that means itself, and a certificate."""
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://u:p%40ss@a/simple\nextra-index-url =\n  https://b/simple\n  https://c/simple\n"
        "cert = /my/ca.pem\n[download]\nfind-links = /wheels\n[install]\nindex-url = https://never/simple\n"
    )
    unconfigured.setenv("PIP_CONFIG_FILE", str(file))
    assert indexes() == ["https://u:p%40ss@a/simple", "https://b/simple", "https://c/simple"]
    assert links() == ["/wheels"]
    assert configured().certificates == "/my/ca.pem"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other systems keep it elsewhere")
@pytest.mark.parametrize("place", [".config/pip/pip.conf", ".pip/pip.conf", "etc/pip/pip.conf"])
def test_pips_files_are_found_where_pip_finds_them(
    unconfigured: pytest.MonkeyPatch, place: str
) -> None:
    """The user's, the older user's, and everybody's."""
    unconfigured.delenv("PIP_CONFIG_FILE")
    file = Path.home() / place
    file.parent.mkdir(parents=True)
    file.write_text("[global]\nfind-links = /from/this/file\n")
    assert "/from/this/file" in links()
    unconfigured.setenv("PIP_CONFIG_FILE", os.devnull)
    assert "/from/this/file" not in links()


def test_uvs_own_file(unconfigured: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Indexes as tables, the older keys, and those of its pip; not those that are for named packages only."""
    file = tmp_path / "uv.toml"
    file.write_text(
        'index-url = "https://old/simple"\n'
        'find-links = ["/wheels"]\n'
        '[[index]]\nname = "a"\nurl = "https://a/simple"\ndefault = true\n'
        '[[index]]\nname = "b"\nurl = "https://b/simple"\nexplicit = true\n'
        '[[index]]\nurl = "/flat"\nformat = "flat"\n'
        '[pip]\nextra-index-url = ["https://p/simple"]\n'
    )
    unconfigured.setenv("UV_CONFIG_FILE", str(file))
    assert indexes() == ["https://a/simple", "https://old/simple", "https://p/simple"]
    assert links() == ["/wheels", "/flat"]
    unconfigured.setenv("UV_NO_CONFIG", "1")
    assert indexes() == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uv.toml", '[[index]]\nurl = "https://project/simple"\n'),
        ("pyproject.toml", '[[tool.uv.index]]\nurl = "https://project/simple"\n'),
    ],
)
def test_a_projects_uv_settings(
    unconfigured: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str
) -> None:
    """Of the project we are in, however deep."""
    (tmp_path / "project" / "deep").mkdir(parents=True)
    (tmp_path / "project" / name).write_text(text)
    unconfigured.chdir(tmp_path / "project" / "deep")
    assert indexes() == ["https://project/simple"]


@pytest.mark.parametrize("text", ["[global\n", "index-url = x", "= = =", "\x00"])
def test_a_broken_file_is_passed_over(
    unconfigured: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    """The installer would complain; here another place may do."""
    for variable, name in (("PIP_CONFIG_FILE", "pip.conf"), ("UV_CONFIG_FILE", "uv.toml")):
        (tmp_path / name).write_text(text)
        unconfigured.setenv(variable, str(tmp_path / name))
    unconfigured.setenv("PIP_INDEX_URL", "https://a/simple")
    assert indexes() == ["https://a/simple"]
