"""Every program that has a harmless use, by name."""

from __future__ import annotations

from hookline.containment.shell.options import Program
from hookline.containment.shell.tables.archives import ARCHIVES
from hookline.containment.shell.tables.awk import AWK
from hookline.containment.shell.tables.builtins import BUILTINS
from hookline.containment.shell.tables.files import FILES
from hookline.containment.shell.tables.find import FD, FIND
from hookline.containment.shell.tables.git import GIT
from hookline.containment.shell.tables.modules import MODULES
from hookline.containment.shell.tables.packages import PACKAGES
from hookline.containment.shell.tables.processes import PROCESSES
from hookline.containment.shell.tables.readers import READERS
from hookline.containment.shell.tables.search import SEARCH
from hookline.containment.shell.tables.sed import SED
from hookline.containment.shell.tables.services import SERVICES
from hookline.containment.shell.tables.system import SYSTEM_TOOLS
from hookline.containment.shell.tables.text import TEXT

PROGRAMS: dict[str, Program] = {
    **TEXT,
    **FILES,
    **BUILTINS,
    **PROCESSES,
    **ARCHIVES,
    **SEARCH,
    **READERS,
    **PACKAGES,
    **MODULES,
    **SERVICES,
    **SYSTEM_TOOLS,
    "git": GIT,
    "find": FIND,
    "fd": FD,
    "fdfind": FD,
    "sed": SED,
    "gsed": SED,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), AWK),
}
