"""The file jail: files below one directory, and no way out of it."""

from hookline.containment.jail.jail import FileJail
from hookline.containment.jail.names import first_of, plain_names
from hookline.containment.jail.tree import Entry

__all__ = ["Entry", "FileJail", "first_of", "plain_names"]
