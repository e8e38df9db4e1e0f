"""A cassette: what went over the wire to a model, recorded once and played again without a network or a key.

Not vcrpy: version 9 patches httpx2, but for the whole process; it reads an answer to its end before
the client sees any of it, so that nothing streams while it records; it keeps neither a lost connection nor one that the
client left; and it knows no secret that a model says in several pieces.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec

from hookline.errors import CassetteError, UsageError
from hookline.testing.cassette_file import (
    ExchangeRecorder,
    RecordedAnswer,
    RecordedRequest,
    parse_json,
    read,
    scrub_request,
    write,
)
from hookline.testing.secrets import (
    SCRUBBED,
    Scrubber,
    ScrubRule,
    open_query,
    secrets_of,
    secrets_of_environment,
)

if TYPE_CHECKING:
    import httpx2


Mode = Literal["auto", "replay", "record"]

_UNREACHED = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})
"""Losses before anybody was reached. A recording of nothing else would only repeat that the network was down."""


class Cassette:
    """A file of requests and answers, in place of the network.

        with Cassette("tests/cassettes/greeting.json"):
            result = agent.run_sync("Hello!")

    Within the block every provider asks through it; `with_model(..., cassette=cassette)` has one agent do so.

    `mode="auto"` replays if there is a file and records otherwise; `"replay"` never touches a network, and a request
    that was not recorded is an error; `"record"` records again. A recording is written at the end of the block, unless
    an exception ends it; without a block, when the agents that used it are closed, or by `save`.

    No header of a request is kept, and of an answer only those that matter. Keys are taken out of everything else,
    and so is what `scrub` finds: regular expressions, or functions from text to text. Scrub whatever changes from run
    to run as well (a date in a prompt, say): on replay anything may stand there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "auto",
        scrub: ScrubRule | Iterable[ScrubRule] = (),
    ) -> None:
        if mode not in get_args(Mode):
            raise UsageError(
                f"a cassette has no mode {mode!r}.", remedy=f"Modes: {', '.join(get_args(Mode))}."
            )
        self._path = Path(path)
        self._is_recording = mode == "record" or (mode == "auto" and not self._path.exists())
        self._scrubber = Scrubber(scrub)
        self._scrubber.learn(secrets_of_environment())
        self._lock = threading.Lock()
        self._takes: list[ExchangeRecorder] = []
        self._open = 0
        self._recorded = () if self._is_recording else read(self._path)
        self._played: set[int] = set()
        self._problem: CassetteError | None = None
        self._force: AbstractContextManager[None] | None = None
        self._is_abandoned = False

    def __repr__(self) -> str:
        return f"Cassette({str(self._path)!r}, mode={self.mode!r})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def mode(self) -> Mode:
        """What it does: "record" or "replay"."""
        return "record" if self._is_recording else "replay"

    @property
    def needs_key(self) -> bool:
        """Whether a provider has to have a key: only while a server is asked."""
        return self._is_recording

    @property
    def unplayed(self) -> int:
        """How many of the recorded requests were not asked yet."""
        return len(self._recorded) - len(self._played)

    def transport(self) -> httpx2.AsyncBaseTransport:
        """A transport for one client of httpx2."""
        from hookline.testing.cassette_transport import RecordingTransport, ReplayTransport

        if not self._is_recording:
            return ReplayTransport(self._play)
        with self._lock:
            self._open += 1
        return RecordingTransport(self._begin, self._close)

    def save(self) -> None:
        """Write what was recorded so far, if a server was reached at all. On replay there is nothing to write."""
        if self._is_recording:
            self._scrubber.learn(secrets_of_environment())  # of now: it may have got more
            exchanges = [take.exchange(self._scrubber) for take in tuple(self._takes)]
            if any(_is_reached(exchange.answer) for exchange in exchanges):
                write(self._path, exchanges)

    # --- the block ----------------------------------------------------------------------------------

    def __enter__(self) -> Cassette:
        from hookline.providers.connections import use_source

        if self._force is not None:
            raise UsageError(f"{self!r} is in use already.", remedy="Make one for each block.")
        self._force = use_source(self)
        self._force.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        force, self._force = self._force, None
        if force is not None:
            force.__exit__(None, None, None)
        if error is None:
            self.save()
            if self._problem is not None:
                raise self._problem  # a run that failed over it may have been taken for any other failure
            return
        self._is_abandoned = True
        if self._problem is not None and self._problem is not error:
            error.add_note(str(self._problem))

    # --- what the transports call -------------------------------------------------------------------

    def _begin(self, request: httpx2.Request) -> ExchangeRecorder:
        take = ExchangeRecorder(self._read_request(request))
        self._takes.append(take)
        return take

    def _close(self) -> None:
        with self._lock:
            self._open -= 1
            is_last = not self._open
        if is_last and self._force is None and not self._is_abandoned:
            self.save()

    def _play(self, request: httpx2.Request) -> RecordedAnswer:
        """The answer to the first request like this one that was not played yet."""
        asked = scrub_request(self._read_request(request), self._scrubber)
        with self._lock:
            for position, exchange in enumerate(self._recorded):
                if position not in self._played and is_same(exchange.request, asked):
                    self._played.add(position)
                    return exchange.answer
            error = self._unknown_request(asked)
            self._problem = self._problem or error
        raise error

    def _unknown_request(self, asked: RecordedRequest) -> CassetteError:
        why = explain_mismatch([each.request for each in self._recorded], self._played, asked)
        return CassetteError(
            f"the cassette '{self._path}' has no answer to {asked.method} {asked.path}: {why}",
            remedy="Delete the file to record it again, or scrub= what changes from run to run.",
        )

    def _read_request(self, request: httpx2.Request) -> RecordedRequest:
        """A request as it is compared, with its secrets learned and still in it."""
        url = request.url
        self._scrubber.learn(secrets_of(str(url), request.headers))
        query = open_query(url.query.decode("ascii", errors="replace"))
        return RecordedRequest(
            request.method, url.path + (f"?{query}" if query else ""), _body(request)
        )


def _is_reached(answer: RecordedAnswer) -> bool:
    return answer.lost is None or answer.lost.kind not in _UNREACHED


def _body(request: httpx2.Request) -> Any:
    content = request.content
    value = parse_json(content)
    if value is not msgspec.UNSET:
        return value
    return content.decode(errors="backslashreplace") or None


# --- which recorded request is asked now, and what differs if none is ---------------------------


_OWN_ID = re.compile(r"\bhookline-[0-9a-f]{32}\b")
"""An id that a provider made for a call, because the server gave none: it differs in each run."""
_NOTHING: Any = object()
_SHOWN = 5
"""How many differences are shown: the others mostly follow from them."""
_AROUND = 24
"""How much of a text is shown before and after the place where it begins to differ."""


class RequestDifference(NamedTuple):
    """A place in a request where it is not as it was recorded."""

    where: str
    recorded: Any
    asked: Any

    def __str__(self) -> str:
        recorded, asked = self.recorded, self.asked
        if isinstance(recorded, str) and isinstance(asked, str):
            recorded, asked = _from_the_difference(recorded, asked)
        return f"{self.where}: recorded {_in_short(recorded)}, asked {_in_short(asked)}"


def is_same(recorded: RecordedRequest, asked: RecordedRequest) -> bool:
    """Whether this is the request that was recorded."""
    return next(differences(recorded, asked), None) is None


def differences(recorded: RecordedRequest, asked: RecordedRequest) -> Iterator[RequestDifference]:
    """Everything that is not as it was recorded."""
    yield from _find_differences(recorded.method, asked.method, "method")
    yield from _find_differences(recorded.path, asked.path, "path")
    yield from _find_differences(recorded.body, asked.body, "")


def nearest(
    recorded: Sequence[RecordedRequest], asked: RecordedRequest
) -> tuple[int, list[RequestDifference]]:
    """The position of the recorded request that differs least, and the differences. There must be one."""
    found = [list(differences(each, asked)) for each in recorded]
    position = min(range(len(found)), key=lambda each: len(found[each]))
    return position, found[position]


def explain_mismatch(
    recorded: Sequence[RecordedRequest], played: Collection[int], asked: RecordedRequest
) -> str:
    """Why there is no answer to a request: what differs from the nearest one, or that all were played."""
    if not recorded:
        return "nothing is recorded."
    same = [position for position, each in enumerate(recorded) if is_same(each, asked)]
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        return f"it was recorded {times}, and is asked for once more."
    position, found = nearest(recorded, asked)
    which = f"request {position + 1} of {len(recorded)}"
    state = " (played already)" if position in played else ""
    lines = [f"the nearest, {which}{state}, differs:", *map(str, found[:_SHOWN])]
    if len(found) > _SHOWN:
        lines.append(f"and {len(found) - _SHOWN} more")
    return "\n  ".join(lines) + "\n "  # what to do follows, on a line like those


def _find_differences(recorded: Any, asked: Any, where: str) -> Iterator[RequestDifference]:
    pairs: Iterator[tuple[str, Any, Any]]
    if isinstance(recorded, dict) and isinstance(asked, dict):
        names = dict.fromkeys((*recorded, *asked))
        pairs = (
            (
                f"{where}.{name}".lstrip("."),
                recorded.get(name, _NOTHING),
                asked.get(name, _NOTHING),
            )
            for name in names
        )
    elif isinstance(recorded, list) and isinstance(asked, list):
        both = zip_longest(recorded, asked, fillvalue=_NOTHING)
        pairs = ((f"{where}[{number}]", *pair) for number, pair in enumerate(both))
    else:
        if not _is_equal(recorded, asked):
            yield RequestDifference(where or "body", recorded, asked)
        return
    for place, one, other in pairs:
        yield from _find_differences(one, other, place)


def _is_equal(recorded: Any, asked: Any) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return _is_same_text(_OWN_ID.sub("hookline-", recorded), _OWN_ID.sub("hookline-", asked))
    return isinstance(recorded, bool) is isinstance(asked, bool) and recorded == asked


def _is_same_text(recorded: str, asked: str) -> bool:
    """Whether they are equal, where anything may stand for what was scrubbed: the secret is another one by now."""
    first, *rest = recorded.split(SCRUBBED)
    if not rest:
        return recorded == asked
    last = rest.pop()
    if not asked.startswith(first) or not asked[len(first) :].endswith(last):
        return False
    position, end = len(first), len(asked) - len(last)
    for part in rest:
        position = asked.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True


def _from_the_difference(one: str, other: str) -> tuple[str, str]:
    """Two texts from a little before the place where they part."""
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(0, same - _AROUND)
    mark = "…" if start else ""
    return mark + one[start:], mark + other[start:]


def _in_short(value: Any) -> str:
    if value is _NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 3 * _AROUND else f"{text[: 3 * _AROUND]}…"
