"""Strings that look like bash: made by a grammar, by changing real commands, and out of noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_NAMES = (
    "ls", "cat", "grep", "find", "git", "rm", "echo", "sed", "awk", "eval", "exec", "test", "[", "cd", "sh",
    "bash", "env", "sudo", "xargs", "time", "if", "for", "while", "case", "{", "}", "!", "[[", "function",
    "coproc", "/bin/rm", "./x", "..", ".", ":", "%", "%1", "true", "exit", "set", "export", "alias", "printf",
    "read", "then", "elif", "else", "fi",
)  # fmt: skip
_PLAIN = (
    "a", "f", "x", "src", "-la", "-n", "-rf", "--help", "HEAD~1", "HEAD@{1}", "@{u}", "a=b", "k=v", "1", "2",
    "10", "foo.py", "./x", "../y", "/etc/x", "a,b", "a:b", "a+b", "%", "^", "]", "}", "-",
)  # fmt: skip
_QUOTED = (
    "'a b'", '"a b"', "''", '""', "'a'b", "a'b'c", 'a"b"c', "'$x'", '"\\$x"', '"a\\"b"', '"a\\|b"', '"a\\b"',
    '"^a$"', '"$"', '"a$ b"', "'é'", '"é ü"', "'a\nb'", '"a\nb"', '"a\tb"', "'!'", '"!"', '"a!b"', "'\\'",
    '"\\\\"', "'{a,b}'", '"*"', "'#'", '"`"', '"\'"', '\'"\'', '"$\'"', "'a;b'", '"a|b"', '"a&b"',
    '"${HOME}"', '"$HOME/x"', '"$PWD"', '"$(a)"', '"$(a b)c"',
)  # fmt: skip
_ODD = (
    "*", "*.py", "a*", "src/*", "--x=*", "?", "[a]*", "[!a]", "{a,b}", "a{b,c}d", "{1..3}", "{}", "{a}", "~",
    "~/x", "~x", "a~b", "a=~", "x:~/y", "$HOME", "$x", "${x}", "$1", "$@", "$?", "$$", "$#", "$-", "$",
    "$(a)", "$(a b)", "`a`", "$((1+1))", "$[1]", "$'a'", '$"a"', "\\a", "\\ ", "\\\n", "a\\\nb", "\\;", "\\(",
    "\\)", "\\!", 'a\\', "<(a)", ">(a)", "#", "#a", "a#b", "a=(b)", "a[0]=b", "a+=b", "\\'", "é", "a\xa0b",
    "\r", "\x01", "\x7f", "\x0b", "!a", "a!b", "!!", "!$", "@(a)", "+(a)", "!(a)", "a'", 'a"', "{", "}", "(",
    ")", "{a,b", "a}", "{a\\,b}", "{'a,b'}", "{a','b}", "{},a}", "a{},b}c", "-{a,b}", "=a", "]]",
)  # fmt: skip
_MORE_ODD = (
    "$'\\t'", "-t$'\\n'", "$'a\\'b'", "$'\\x41'", "${HOME##*/}", '"${PWD%/*}"', "${#PATH}", "${USER:-a}",
    "${x:-a}", "${x:=a}", "${x/a/b}", '"${HOME#a b}"', "${HOME%%$x}", " \\\n", "$((x+1))", "$(( (1+2)*3 ))",
    "@{u}..HEAD", "{a}..b", "{a},b", "{a}{b,c}", "{a'}',b}", "{a{b},c}",
    '"$((RANDOM % 9))"', "$(( $(a) + 1 ))", "a$((2**3))b", "$((1)", "$((a[0]))", '"$((1-1))"',
)  # fmt: skip
_JOINTS = (
    " ; ", ";", " && ", "&&", " || ", "||", " | ", "|", " |& ", "\n", "\n\n", " & ", "&", " ;; ", "; ;",
    " && && ", "|\n", "&&\n", " \\\n| ", "\n| ", " !", " ! ",
)  # fmt: skip
_REDIRECTS = (
    "2>/dev/null", ">/dev/null", "2>&1", ">&2", "&>/dev/null", "<f", "< f", "> x", ">> x", "2> x", "<<<a",
    "<<< 'a b'", "<<E\na\nE", "<&0", ">&-", "<&-", "2>&1 >/dev/null", ">|x", "<>x", "{v}>x", "1 2>&1",
    "a2>&1", ">& x", "&>>x", "3<f", "2>&1x", ">/dev/null x", "<(a)", "> /dev/null", "2>& 1", "<<-E\n\ta\nE",
    ">'a b'", "</dev/null", "12345>x",
)  # fmt: skip
_NOISE = "abx01 \t\n'\"\\$`|&;<>(){}[]*?!#~=%^@+-./:,_é\u00a0\r\x01\x7f"
_SPLICES = (
    "'", '"', '\\', "\\\n", "$", "`", " ", "\n", ";", "|", "&", "<", ">", "(", ")", "{", "}", "*", "~", "#",
    "!", "=", "''", '""', "\t", "$(", ")", "a", "-", ",", "..", "\r", "é", "[", "]", "^", "%", ":", "2>",
    "&&", "  ", "\\ ", "${", "}",
)  # fmt: skip
_FRAMES = (
    "({})", "({}) 2>/dev/null", "({}) > x", "cat f | while {}; do b; done",
    "while read -r l; do echo $l x$l; {}; done < f",
    "$({})", "{{ {}; }}", "! {}", "time {}", "x() {{ {}; }}", "if {}; then b; fi",
    "for i in a; do {}; done", 'for i in a *.py; do echo $i "$i" x$i; {}; done', "if {}; then b; else c; fi",
    "[[ -f x ]] && {}", "a <({}) b", "time {}", "echo $((1 + 2)) && {}", "{} # a", "# a\n{}", "a=1 {}",
    "LC_ALL=C {}", "[[ {} ]]", "{} &", "coproc {}", "({}) && a", "({}) & a", "if {}; then b; fi && c",
    "[[ a == b* || ! -f x ]] && {}", "[[ {} == b ]] || a", "[[ a =~ ^{} ]] && c", "[[ 1 -lt 2 ]] && {}",
    "while read -r l; do echo \"$l\"; done < <({})", "x=a DIR=b; {}; echo \"${{x%a}}\" $DIR",
    "cat <<'E' | {}\n$x `a` \\\nE\n", "cat <<E; {}\na b\nE\na", "{} <<E\nrm x\nE", "a <<-'E' && {}\n\tb\n\tE",
    "cat <<E {}\na\nE", "a <<E <<'F'; {}\na\nE\n$b\nF\nc", "{} \\\n  a", "a \\\n{}",
    "case a in a|b*) {};; *) b;; esac", "case $HOME in\n /*) {}\n;;\nesac && c", "case a in (a) {};; esac > x",
    "case a in a) {} ;;& *) b; esac", "case {} in a) b;; esac", "case a in {}) b;; esac", "case a in a) {}; esac",
    "for ((i=0; i<2; i++)); do echo $i; {}; done", "i=0; while [ $i -lt 2 ]; do {}; i=$((i+1)); done",
    'i=2; until [ "$i" -le 0 ]; do echo $i x$i; ((i--)); {}; done', 'x=1 y=a; echo $((x*2)) "$x,$y" x$y; {}; a $x',
    'f=a; b < "$f"; {}', "for i in {{1..2}}; do echo $((i*3)) && {}; done", "x=1; ((x+=2)); {}; a $x",
    "a \\\n# {}\nb", '[ -z "$x" ] && {}', '[[ -n "$x" && ! -z "$(a)" ]] || {}', "test -n $x && {}",
    "if {}; then b; elif c; then d; else e; fi", "a | if {}; then b; fi | c", "if a\nthen {}\nfi > x",
    "if {} then b; fi", "if a; then if {}; then b; else c; fi; fi", "if (a) then {}; fi", "{} <<< 'a b' && c",
    "x=({}\nb", "x=(; {}\nb",
)  # fmt: skip


class Strings:
    """An endless supply of strings, the same for the same seed."""

    def __init__(self, seed: int, commands: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.commands = list(commands)

    def kinds(self) -> dict[str, Callable[[], str]]:
        """The ways to make one, by name."""
        return {
            "plain grammar": lambda: self.grammar(0.02),
            "odd grammar": lambda: self.grammar(0.2),
            "changed commands": self.changed,
            "joined commands": self.joined,
            "noise": self.noise,
        }

    def grammar(self, oddness: float) -> str:
        """Commands made of parts, `oddness` of them strange."""
        pick = self.random
        text = self._command(oddness)
        while pick.random() < 0.4:
            odd = pick.random() < oddness
            text += pick.choice(_JOINTS if odd else _JOINTS[:10]) + self._command(oddness)
        if pick.random() < oddness:
            text = pick.choice(_FRAMES).format(text)
        return text

    def _command(self, oddness: float) -> str:
        pick = self.random
        words = [pick.choice(_NAMES[:12] if pick.random() > oddness else _NAMES)]
        for _ in range(pick.randrange(5)):
            roll = pick.random()
            pool: Sequence[str] = (
                _ODD + _MORE_ODD if roll < oddness else _PLAIN if roll < 0.7 else _QUOTED
            )
            words.append(pick.choice(pool))
            if pick.random() < oddness / 2:
                words[-1] += pick.choice(_QUOTED + _ODD)
        if pick.random() < 0.1 + oddness:
            redirects = _REDIRECTS if pick.random() < 0.5 else _REDIRECTS[:7]
            words.insert(pick.randrange(len(words) + 1), pick.choice(redirects))
        blank = " " if pick.random() > oddness else pick.choice(("  ", "\t", " \\\n", ""))
        return blank.join(words)

    def changed(self) -> str:
        """A real command with a few characters put in, taken out or doubled."""
        pick = self.random
        text = pick.choice(self.commands)
        for _ in range(pick.choice((1, 1, 1, 2, 3))):
            at = pick.randrange(len(text) + 1)
            roll = pick.random()
            if roll < 0.6:
                text = text[:at] + pick.choice(_SPLICES) + text[at:]
            elif roll < 0.8:
                text = text[:at] + text[at + 1 :]
            else:
                to = min(len(text), at + pick.randrange(1, 6))
                text = text[:to] + text[at:to] + text[to:]
        return text

    def joined(self) -> str:
        """Pieces of two real commands."""
        pick = self.random
        one, other = pick.choice(self.commands), pick.choice(self.commands)
        if pick.random() < 0.5:
            return one + pick.choice(_JOINTS) + other
        return one[: pick.randrange(len(one) + 1)] + other[pick.randrange(len(other) + 1) :]

    def noise(self) -> str:
        """Characters that mean something to bash, in no order."""
        pick = self.random
        return "".join(pick.choice(_NOISE) for _ in range(pick.randrange(1, 30)))
