"""Build the documentation site: README.md, docs/ and the pages beside them, as HTML below build/site.

    python3 scripts/docs_site.py             build it; a warning or a broken link is exit status 1
    python3 scripts/docs_site.py --serve     then show it on http://127.0.0.1:8000

The pages are copied with the layout of the repository, so that a link means the same in both. Three things differ
on the site. A block that is a file has the file's name above it. The reference is a page for each package, made by
mkdocstrings from the names that `scripts/reference.py` lists. A link to a file or directory that is no page leads to a
page that shows it.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import environment
import pages
import reference
import system_tools

ROOT = environment.ROOT
PLACE = ROOT / "build" / "site"
GENERATOR = next(tool for tool in system_tools.WANTED if tool.program == "zensical")
NAVIGATION = "  - docs/reference.md\n"  # the line of mkdocs.yml below which the packages are listed
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yml": "yaml", ".sh": "sh"}
LINKED = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")
CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
ROW = re.compile(r"(?<=`)[^`\n]*\\\|[^`\n]*(?=`[^\n]*\|$)", re.MULTILINE)
FILE = re.compile(r"<!-- (?:file|example): (?P<name>\S+) -->\n(?P<fence> *```\w+)$", re.MULTILINE)
STYLE_LOADS = re.compile(r"@import\s+(?:url\()?[\"']?([^\"')\s;]+)|url\(\s*[\"']?([^\"')]+)")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
LOADS = {  # the elements that make a browser fetch something, and the attributes that say what
    **dict.fromkeys(("script", "img", "iframe", "embed", "source", "video", "audio"), ("src",)),
    "link": ("href",),
    "object": ("data",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}


def main() -> int:
    """Build it, and say what is wrong with it."""
    parser = environment.argument_parser(__doc__)
    parser.add_argument("--serve", action="store_true", help="show it on http://127.0.0.1:8000")
    options = parser.parse_args()
    system_tools.ensure((GENERATOR,))
    problems = build(PLACE)
    print(*problems, sep="\n", file=sys.stderr)
    if not problems:
        print(f"wrote {(PLACE / 'html').relative_to(ROOT)}", file=sys.stderr)
    if options.serve:
        handler = functools.partial(SimpleHTTPRequestHandler, directory=PLACE / "html")
        ThreadingHTTPServer(("127.0.0.1", 8000), handler).serve_forever()
    return 1 if problems else 0


def build(place: Path, root: Path = ROOT) -> list[str]:
    """Build the site of a repository in a directory; gives what is wrong with it."""
    shutil.rmtree(place, ignore_errors=True)
    stage(root, place)
    program = system_tools.find(GENERATOR)
    if program is None:
        return [f"{GENERATOR.name} is not installed."]
    made = subprocess.run(
        [program, "build", "--strict", "--config-file", place / "mkdocs.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [] if made.returncode == 0 else [COLOUR.sub("", made.stdout + made.stderr)]
    return said + (list(problems_of(place / "html")) if (place / "html").is_dir() else [])


# --- what it is built from ------------------------------------------------------------------------


def stage(root: Path, place: Path) -> None:
    """Put the pages, their configuration and the source that mkdocstrings reads into a directory."""
    copied = place / "pages"
    shutil.copytree(root / "docs", copied / "docs")
    (copied / "docs/README.md").unlink()  # it is the README again
    for page in all_pages(root):
        target = copied / page.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text_of(page, root, copied), encoding="utf-8")
    modules = reference.modules()
    (copied / "docs/reference").mkdir()
    (copied / "docs/reference.md").write_text(list_of(modules), encoding="utf-8")
    for module in modules:
        text = package_page(module)
        (copied / f"docs/reference/{module}.md").write_text(text, encoding="utf-8")
    listed = "".join(f"      - {module}: docs/reference/{module}.md\n" for module in modules)
    section = f"  - Reference:\n      - docs/reference.md\n{listed}"
    settings = (root / "mkdocs.yml").read_text(encoding="utf-8")
    (place / "mkdocs.yml").write_text(settings.replace(NAVIGATION, section), encoding="utf-8")
    shutil.copytree(root / "scripts/site_theme", place / "theme")
    (place / "src").symlink_to(ROOT / "src")


def all_pages(root: Path) -> list[Path]:
    """Every page of the repository; docs/README.md is the README again and is left out."""
    patterns = [pattern for _, patterns in pages.SECTIONS for pattern in patterns]
    found = [page for pattern in patterns for page in root.glob(pattern)]
    return sorted({*found} - {root / "docs/README.md"})


def text_of(page: Path, root: Path, copied: Path) -> str:
    """The text of a page. Its links to files that are no pages lead to pages that show them."""

    def replace(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link[1]))
        if target.suffix == ".md" or target.is_relative_to(root / "docs") or not target.exists():
            return link[1]
        shown = copied / f"{target.relative_to(root)}.md"
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(shown_page(target, root), encoding="utf-8")
        return f"{link[1].removesuffix('/')}.md"

    # In a cell, GitHub wants a backslash before a pipe in code, and Zensical shows the backslash.
    text = ROW.sub(lambda row: row[0].replace("\\|", "|"), page.read_text(encoding="utf-8"))
    text = FILE.sub(r'\g<fence> title="\g<name>"', text)
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [LINKED.sub(replace, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join((*parts, LINKED.sub(replace, text[end:])))


def shown_page(target: Path, root: Path) -> str:
    """A page that shows a file, or every file of a directory."""
    inside = (each for each in target.rglob("*") if "__pycache__" not in each.parts)
    files = [target] if target.is_file() else sorted(each for each in inside if each.is_file())
    parts = [f"# {target.relative_to(root)}\n"]
    for file in files:
        heading = f"## {file.relative_to(target)}\n\n" if file != target else ""
        text = file.read_text(encoding="utf-8").rstrip("\n")
        parts.append(f"{heading}````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n````\n")
    return "\n".join(parts)


def list_of(modules: list[str]) -> str:
    """The first page of the reference."""
    lines = [f"- [`{m}`](reference/{m}.md): {reference.purpose(m)}" for m in modules]
    names = [
        f"- of `{m}`: " + ", ".join(f"[`{name}`](reference/{m}.md#{m}.{name})" for name in listed)
        for m, listed in reference.names_of_hookline().items()
    ]
    return "\n".join((reference.HEAD, *lines, "\n## hookline\n", *names, ""))


def package_page(module: str) -> str:
    """The page of a package: the directives from which mkdocstrings makes it.

    A function with the name of its module needs one of its own: mkdocstrings takes it for the module.
    """
    names = reference.exported_names(module)
    homes = [name for name in names if reference.file_of(f"{module}.{name}").is_file()]
    listed = (
        "".join(f'        - "{name}"\n' for name in names if name not in homes) or "        []\n"
    )
    functions = [
        f'<a id="{module}.{name}"></a>\n\n::: {reference.definition(module, name)[0]}.{name}\n'
        "    options:\n      show_root_heading: true\n      show_root_toc_entry: true\n"
        for name in homes
    ]
    text = f"# {module}\n\n::: {module}\n    options:\n      members:\n{listed}"
    return "\n".join((text, *functions))


# --- what came out --------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a built page has: its anchors, its links, and what it makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element has."""
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        is_link = tag != "link" or given.get("rel") not in ("canonical", "prev", "next")
        self.loads += [given[name] for name in LOADS.get(tag, ()) if is_link and name in given]
        self.loads += [part.split()[0] for part in given.get("srcset", "").split(",") if part]
        self.loads += loads_of(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        """Note what a style sheet in the page loads."""
        if self._in_style:
            self.loads += loads_of(data)

    def handle_endtag(self, tag: str) -> None:
        """Leave a style sheet."""
        self._in_style &= tag != "style"


def loads_of(style: str) -> list[str]:
    """What a style sheet loads."""
    return [imported or url for imported, url in STYLE_LOADS.findall(style)]


def problems_of(site: Path) -> Iterator[str]:
    """Links of the built pages that lead nowhere, and what a browser would fetch from another host."""
    built = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    for file, page in built.items():
        where = file.relative_to(site)
        yield from (f"{where}: loads {url}" for url in page.loads if is_elsewhere(url))
        for link in [*page.links, *page.loads]:
            if not is_elsewhere(link) and not leads_somewhere(file, link, site, built):
                yield f"{where}: the link {link} leads nowhere"
    for file in sorted(site.rglob("*.css")):
        loads = loads_of(file.read_text(encoding="utf-8"))
        yield from (f"{file.relative_to(site)}: loads {url}" for url in loads if is_elsewhere(url))


def is_elsewhere(url: str) -> bool:
    """Whether an address has a host, or needs a program other than the browser."""
    parts = urlsplit(url)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def leads_somewhere(file: Path, link: str, site: Path, built: dict[Path, Page]) -> bool:
    """Whether a link within the site leads to a file, and to an anchor that the page has."""
    parts = urlsplit(link)
    if parts.scheme:
        return True
    path = unquote(parts.path)
    start = site if path.startswith("/") else file.parent
    target = Path(os.path.normpath(start / path.lstrip("/"))) if path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site) or not target.is_file():
        return False
    return not parts.fragment or unquote(parts.fragment) in built[target].anchors


if __name__ == "__main__":
    sys.exit(main())
