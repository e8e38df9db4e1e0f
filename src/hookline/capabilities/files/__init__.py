"""Files: read, write, edit, list, glob and search below one directory."""

from hookline.capabilities.files.capability import Files

__all__ = ["Files"]
