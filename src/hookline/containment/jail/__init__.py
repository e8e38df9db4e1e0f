"""The file jail: files below one directory, and no way out of it."""

from hookline.containment.jail.directory import FileEntry
from hookline.containment.jail.jail import FileJail
from hookline.containment.jail.paths import first_of, plain_names

__all__ = ["FileEntry", "FileJail", "first_of", "plain_names"]
