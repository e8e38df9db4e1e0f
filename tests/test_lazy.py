"""Names of a package are loaded when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hookline.markdown


def test_a_package_loads_a_module_when_one_of_its_names_is_used() -> None:
    """Importing only the package loads none of its modules."""
    code = """
import sys, hookline.markdown as package
assert "hookline.markdown.document" not in sys.modules
first = package.Document
assert "hookline.markdown.document" in sys.modules
assert vars(package)["Document"] is first
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_a_package_does_not_have_is_an_attribute_error() -> None:
    """It names the package and the name, as Python does."""
    with pytest.raises(AttributeError, match=r"module 'hookline.markdown' has no attribute 'Nope'"):
        _ = hookline.markdown.Nope  # type: ignore[attr-defined]
