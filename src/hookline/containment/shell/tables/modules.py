"""Modules that Python itself is told to run, of those that only look, and the files that would be run in their place.

`python -m name` looks for modules in the directory it stands in before all others: a file `argparse.py` there is run by
`python -m json.tool`. So is one that a module merely tries to import, and that is usually missing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence

from hookline.containment.shell.options import Options, Program, only
from hookline.containment.shell.tables.checks import first_word, plain_names
from hookline.containment.shell.tables.packages import PIP
from hookline.containment.shell.words import Word

MODULE = "python -m"
"""Under this name the modules are in the tables."""
_PYTHON = re.compile(r"(?:python|pypy)(?:[23](?:\.[0-9]+)?)?")
_TRIED = frozenset(
    """
    attr brotli brotlicffi certifi chardet charset_normalizer colorama cryptography datrie h2 importlib_metadata
    importlib_resources ipython ipywidgets java jinja2 keyring org openssl pip pkg_resources pygments pyodide re2 rich
    setuptools simplejson sitecustomize socks tomli truststore typing_extensions urllib3 urllib3_secure_extra
    usercustomize vms_lib wheel winloop zstandard
    """.split()
)
"""What pip, and the standard library, import if it is there."""
_FORMER = frozenset(
    """
    annotationlib anydbm asynchat asyncore audiodev basehttpserver bastion binhex bsddb cgi cgihttpserver cgitb chunk
    commands compiler compression cookie cookielib copy_reg cpickle crypt cstringio dbhash dircache distutils dl dlfcn
    docxmlrpcserver dumbdbm dummy_thread dummy_threading easy_install exceptions formatter fpformat future_builtins
    hotshot htmlentitydefs htmllib htmlparser httplib ihooks imghdr imp imputil lib2to3 macpath macurl2path markupbase
    md5 mhlib mimetools mimewriter mimify msilib multifile mutex new nis nntplib os2emxpath ossaudiodev parser pipes
    popen2 posixfile repr rexec rfc822 robotparser sets sgmllib sha simplehttpserver simplexmlrpcserver sndhdr spwd sre
    statvfs stringio stringold strop sunau sunaudio symbol telnetlib thread toaiff urllib2 urlparse user userdict
    userlist userstring uu whichdb xdrlib xmllib xmlrpclib
    """.split()
)
"""Of the standard libraries of other versions."""
_STANDARD = frozenset(name.lower() for name in sys.stdlib_module_names) - {"test", "__main__"}
_CODE = re.compile(r"([\w-]+)(?:\.[\w.-]+)?\.(?:py|pyc|pyo|pyw|pyd|so|dll|dylib)")
_PACKAGED = (".dist-info", ".egg-info", ".egg-link", ".egg")

_JSON_TOOL = only(
    "--sort-keys --json-lines --no-ensure-ascii --tab --no-indent --compact --help -h",
    texts="--indent",
    operands=1,  # the second is written to
)
_LISTS = only("-l --list", needs="-l --list", operands=1)
_MODULES: dict[str, Options | Program] = {
    **dict.fromkeys(("json.tool", "json"), _JSON_TOOL),
    **dict.fromkeys(("pip", "pip3"), PIP),
    "site": only("--user-site --user-base --help"),
    "sysconfig": only(operands=0),
    "platform": only("--terse", operands=1, check=first_word("terse", needed=False)),
    "this": only(operands=0),
    "calendar": only(operands=2, check=plain_names("[0-9]+")),
    **dict.fromkeys(("zipfile", "tarfile"), _LISTS),
    "ast": only("-a --include-attributes", texts="-m --mode -i --indent", operands=1),
    "tokenize": only("-e -h --exact --help", operands=1),
    "mimetypes": only("-e -l --extension --lenient", check=plain_names(r"[\w./+-]+")),
}
MODULES: dict[str, Program] = {MODULE: Program(only(), _MODULES)}


def with_module(name: str, words: Sequence[Word]) -> tuple[str, Sequence[Word]]:
    """The name under which a call of Python with a module is in the tables, and the words from the module on."""
    if words and words[0] == Word("-m") and _PYTHON.fullmatch(name):
        return MODULE, words[1:]
    return name, words


def shadow_objection(places: Iterable[str], words: Sequence[Word]) -> str | None:
    """Why a module may not be the one of that name: what lies where Python stands comes first."""
    freezes = Word("freeze") in words
    for place in sorted(places):
        try:
            with os.scandir(place) as entries:
                found = next((one for one in entries if _may_be_run(one, freezes=freezes)), None)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return "it cannot be said which modules lie there"
        if found:
            return f"{found.path} may be run in place of what Python has under that name"
    return None


def _may_be_run(entry: os.DirEntry[str], *, freezes: bool) -> bool:
    name = entry.name.lower()
    if freezes and name.endswith(_PACKAGED):  # it may say where a repository is, and pip asks there
        return True
    if code := _CODE.fullmatch(name):
        return _is_taken(code[1])
    if not name.isidentifier() or not _is_taken(name) or not entry.is_dir():
        return False
    if name in _TRIED:
        return True
    with os.scandir(entry.path) as inside:  # without this file, another of the name comes first
        return any(one.name.startswith("__init__.") for one in inside)


def _is_taken(name: str) -> bool:
    private = name.startswith("_") and name not in {"__init__", "__main__", "__pycache__"}
    return private or name in _STANDARD or name in _TRIED or name in _FORMER
