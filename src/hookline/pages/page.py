"""One page of HTML that needs nothing else. What was recorded is text on it, never markup."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from hookline.redaction import Redactor
from hookline.state import render, thaw

Row: TypeAlias = "Sequence[str | Markup]"
LONGEST = 10_000
"""Characters of one text that a page shows."""
_SHORT, _SHORT_MARKUP = 24, 64
"""Characters of a cell that is not wrapped."""
_AFTER = 4_096
"""Characters behind that, which are read too: a secret that is cut off would not be recognised."""
_SIGNS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_SIGNS |= {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
_SIGNS |= dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
"""Other people's words: what would steer a terminal, or change the direction of the text, is shown as a sign."""


class Markup(str):
    """Markup that a `PageWriter` made. All other text is escaped."""

    __slots__ = ()


class PageWriter:
    """Makes elements of HTML and SVG. Every text in them is redacted and escaped here, and nowhere else."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self.redactor = redactor or Redactor()

    def text(self, text: str, most: int = LONGEST) -> str:
        """A text as it may be shown: without secrets and control characters, and not too long."""
        said = visible(self.redactor.text(text[: most + _AFTER]))
        return said if len(text) <= most and len(said) <= most + _AFTER else f"{said[:most]}…"

    def values(self, args: Mapping[str, Any]) -> dict[str, str]:
        """The arguments of a call as texts. A secret among them is also known by its name."""
        shown = self.redactor.value(thaw(args))
        return {name: render(value) for name, value in shown.items()}

    def element(self, name: str, *content: str | Markup, **attributes: object) -> Markup:
        """An element. An attribute that is None is left out; `class_` and `for_x` stand for `class` and `for-x`."""
        inside = "".join(
            each if isinstance(each, Markup) else html.escape(self.text(each)) for each in content
        )
        given = "".join(
            f' {key.rstrip("_").replace("_", "-")}="{html.escape(_attribute(value))}"'
            for key, value in attributes.items()
            if value is not None
        )
        return Markup(f"<{name}{given}>{inside}</{name}>")

    def table(self, caption: str, titles: Row, rows: Iterable[Row]) -> Markup:
        """A table; nothing if it has no rows."""
        e = self.element
        body = [e("tr", *map(self._cell, row)) for row in rows]
        if not body:
            return Markup()
        head = e("tr", *(e("th", title, scope="col") for title in titles))
        return e(
            "div",
            e(
                "table",
                e("caption", caption),
                e("thead", head),
                e("tbody", join(body, "\n")),
            ),
            class_="scroll",
        )

    def _cell(self, cell: str | Markup) -> Markup:
        """A cell. A short one stays in one line, so that no column is narrower than its words."""
        most = _SHORT_MARKUP if isinstance(cell, Markup) else _SHORT
        return self.element("td", cell, class_="long" if len(cell) > most else None)

    def page(self, title: str, *parts: Markup, style: str = "") -> str:
        """The whole page. Its policy allows no script and no request, whatever should be on it."""
        look = f"\n{STYLE}{style}"
        digest = base64.b64encode(hashlib.sha256(look.encode()).digest()).decode()
        return _PAGE.format(
            policy=_POLICY.format(digest=digest),
            title=html.escape(self.text(title)),
            style=look,
            parts=join(filter(None, parts), "\n"),
        )


def _attribute(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def join(parts: Iterable[Markup], between: str = "") -> Markup:
    """Markup one after the other."""
    return Markup(between.join(parts))


def visible(text: str) -> str:
    """Text in which control characters are signs, and half a character is a question mark."""
    return text.encode(errors="replace").decode().translate(_SIGNS)


def duration(seconds: float) -> str:
    """A time, in the unit it is best read in."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def count(number: int, what: str) -> str:
    """How many of something: `1 step`, `2 steps`."""
    return f"{number:,} {what}{'s' * (number != 1)}"


_POLICY = "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{parts}
</main>
</body>
</html>
"""
STYLE = """\
:root { color-scheme: light dark; --line: #d0d7de; --quiet: #59636e; --bad: #b31d28; --good: #1a7f4b; --ask: #8a5a00;
--card: #f6f8fa; --page: #ffffff; --ink: #1f2328; --bad-back: #ffebe9; --good-back: #dafbe6; --ask-back: #fff4d6; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --quiet: #9198a1; --bad: #ff8f8f; --good: #5fd39a;
--ask: #e3b341; --card: #151b23; --page: #0d1117; --ink: #e6edf3; --bad-back: #3b1519; --good-back: #10301f;
--ask-back: #33270a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem;
background: var(--page); color: var(--ink); }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
.ok { color: var(--good); } .bad { color: var(--bad); } .ask { color: var(--ask); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin-top: 2rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: .5rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line);
white-space: nowrap; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
"""
