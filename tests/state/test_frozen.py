from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import json
import pickle
import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import HooklineError, NotJSONError
from hookline.lifecycle import HookPoint
from hookline.state import FrozenDict, FrozenList, checked_text, freeze, freeze_dict, thaw

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


def as_lists(value: Any) -> Any:
    """The value as JSON reads it back: tuples are lists."""
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, list | tuple) else value


def parts(value: Any) -> list[Any]:
    """Every value inside a value."""
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return [value]
    return [value, *(part for item in inner for part in parts(item))]


# --- what goes in comes out ---------------------------------------------------------------------------


@given(JSON)
def test_freezing_keeps_the_value(value: Any) -> None:
    """Frozen JSON equals, encodes and thaws like what it was made of."""
    frozen = freeze(value)
    assert frozen == as_lists(value)
    assert json.loads(json.dumps(frozen)) == as_lists(value)
    assert msgspec.json.decode(msgspec.json.encode(frozen)) == as_lists(value)
    assert thaw(frozen) == as_lists(value)


@given(JSON)
def test_what_is_frozen_is_frozen_to_any_depth(value: Any) -> None:
    """No plain list or dict is left anywhere, and freezing again costs nothing."""
    frozen = freeze(value)
    assert not [part for part in parts(frozen) if type(part) in (dict, list)]
    assert freeze(frozen) is frozen


@given(JSON)
def test_thawing_gives_a_private_copy(value: Any) -> None:
    """What is thawed can be changed, and nothing of it is shared with what stays frozen."""
    frozen = freeze({"value": value})
    thawed = thaw(frozen)
    assert not [part for part in parts(thawed) if type(part) in (FrozenDict, FrozenList)]
    thawed["value"] = "changed"
    assert frozen == {"value": as_lists(value)}


def test_the_original_can_be_changed_afterwards() -> None:
    """Freezing takes a copy: a change of the original does not change the state."""
    original = {"list": [1, {"deep": []}]}
    frozen = freeze(original)
    original["list"].append(2)  # type: ignore[attr-defined]
    original["list"][1]["deep"].append("x")  # type: ignore[index]
    assert frozen == {"list": [1, {"deep": []}]}


# --- what is refused ----------------------------------------------------------------------------------

DICT_CHANGES: list[Callable[[Any], Any]] = [
    lambda d: d.__setitem__("a", 1),
    lambda d: d.__delitem__("a"),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.clear(),
    lambda d: d.update(a=1),
    lambda d: d.setdefault("b", 1),
    lambda d: d.__ior__({"b": 1}),
]
LIST_CHANGES: list[Callable[[Any], Any]] = [
    lambda x: x.__setitem__(0, 1),
    lambda x: x.__setitem__(slice(0, 1), []),
    lambda x: x.__delitem__(0),
    lambda x: x.append(1),
    lambda x: x.extend([1]),
    lambda x: x.insert(0, 1),
    lambda x: x.remove("a"),
    lambda x: x.pop(),
    lambda x: x.clear(),
    lambda x: x.sort(),
    lambda x: x.reverse(),
    lambda x: x.__iadd__([1]),
    lambda x: x.__imul__(2),
]


@pytest.mark.parametrize("change", range(len(DICT_CHANGES)))
def test_a_frozen_dict_refuses_to_change(change: int) -> None:
    """Every way to change a dict says that it is read-only and what to do instead."""
    frozen = freeze({"a": 0})
    with pytest.raises(TypeError, match=r"read-only; derive a changed one"):
        DICT_CHANGES[change](frozen)
    assert frozen == {"a": 0}


@pytest.mark.parametrize("change", range(len(LIST_CHANGES)))
def test_a_frozen_list_refuses_to_change(change: int) -> None:
    """Every way to change a list says that it is read-only and what to do instead."""
    frozen = freeze(["a"])
    with pytest.raises(TypeError, match=r"read-only; derive a changed one"):
        LIST_CHANGES[change](frozen)
    assert frozen == ["a"]


def test_copies_of_frozen_values_stay_frozen_or_are_plain() -> None:
    """A copy module's copy is the value itself; the dict and list constructors make changeable ones."""
    frozen = freeze({"a": [1]})
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert copy.deepcopy(frozen["a"]) is copy.copy(frozen["a"]) is frozen["a"]
    plain = dict(frozen)
    plain["b"] = 2
    assert frozen == {"a": [1]}
    assert type(pickle.loads(pickle.dumps(frozen))) is FrozenDict
    assert type(pickle.loads(pickle.dumps(frozen["a"]))) is FrozenList
    assert frozen.with_item("b", 2) == {"a": [1], "b": 2}


class Colour(enum.Enum):
    RED = "red"


class Strange(enum.Enum):
    OBJECT = object()


@dataclasses.dataclass
class Holder:
    content: Any


class Lies:
    def __json__(self) -> object:
        """Pretend, and give nothing away."""
        return self


class Endless:
    def __init__(self, other: type) -> None:
        self.other = other

    def __json__(self) -> object:
        """Always another one."""
        return self.other(type(self))


class Another(Endless):
    pass


def contains_itself() -> list[Any]:
    """A list in a list in a list."""
    loop: list[Any] = []
    loop.append(loop)
    return loop


def dict_that_contains_itself() -> dict[str, Any]:
    """A dict in a dict in a dict."""
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "is nan"),
        (float("inf"), "is inf"),
        (-float("inf"), "is -inf"),
        ([1, {"deep": float("nan")}], "is nan"),
        (2**63, "beyond 64 bits"),
        (-(2**63) - 1, "beyond 64 bits"),
        ({"n": 10**30}, "beyond 64 bits"),
        ("\ud800", "not valid Unicode"),
        (["fine", "half \udfff"], "not valid Unicode"),
        ({"\ud800": 1}, "not valid Unicode"),
        ({1: "a"}, r"has the key 1 \(int\)"),
        ({"a": {None: 1}}, r"has the key None \(NoneType\)"),
        ({("a",): 1}, "has the key"),
        (object(), "is of type object"),
        (print, "is of type builtin_function_or_method"),
        (Holder, "is of type type"),
        (1j, "is of type complex"),
        ((n for n in ()), "is of type generator"),
        (ValueError("x"), "is of type ValueError"),
        (Strange.OBJECT, "is of type object"),
        (Holder(object()), "is of type Holder"),
        (Holder(float("nan")), "is nan"),
        (Lies(), "is of type Lies"),
        (Endless(Another), "or contains itself"),
        (contains_itself(), "or contains itself"),
        (dict_that_contains_itself(), "or contains itself"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_is_refused(value: Any, words: str) -> None:
    """The error names what was to enter state, why it cannot, and what to do."""
    with pytest.raises(NotJSONError, match=words) as caught:
        freeze(value, "metadata 'thing'")
    assert str(caught.value).startswith(("metadata 'thing'", "a key of metadata 'thing'"))
    assert caught.value.remedy
    assert isinstance(caught.value, HooklineError)
    assert isinstance(caught.value, TypeError)


def test_nesting_is_refused_before_it_could_not_be_read_again() -> None:
    """What is let in is shallow enough to be decoded anywhere; a level more is refused."""

    def nested(levels: int) -> Any:
        value: Any = "core"
        for _ in range(levels):
            value = [value]
        return value

    assert thaw(freeze(nested(128))) == nested(128)
    with pytest.raises(NotJSONError, match="nested deeper"):
        freeze(nested(5000))


# --- types that say how they become JSON --------------------------------------------------------------


class Point2D(pydantic.BaseModel):
    x: int
    on: datetime.date = datetime.date(2024, 2, 29)


class Struct(msgspec.Struct):
    x: int
    colour: Colour = Colour.RED


class Says:
    def __json__(self) -> object:
        """JSON that holds something else that says how."""
        return {"inner": [Struct(1)], "tuple": (1, 2)}


class Shout(str):
    """Text of a class of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


class Metres(float):
    pass


class Count(int):
    pass


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Says(), {"inner": [{"x": 1, "colour": "red"}], "tuple": [1, 2]}),
        (Point2D(x=1), {"x": 1, "on": "2024-02-29"}),
        (Holder([Holder(None)]), {"content": [{"content": None}]}),
        (Struct(1), {"x": 1, "colour": "red"}),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        (datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC), "2024-02-29T12:00:00Z"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.time(12, 30), "12:30:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.50"), "1.50"),
        (Pair(1, [2]), [1, [2]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (Shout("quiet"), "quiet"),
        (Metres(1.5), 1.5),
        (Count(3), 3),
        (HookPoint.BEFORE_STEP, "before_step"),
        ({Word.YES: 1, Shout("k"): 2}, {"yes": 1, "k": 2}),
        (True, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_type_that_says_how_it_becomes_json_is_converted(value: Any, expected: Any) -> None:
    """At the top and inside other values alike, into plain JSON types."""
    frozen = freeze(value)
    assert frozen == expected
    assert freeze({"deep": [value]}) == {"deep": [expected]}
    plain = (FrozenDict, FrozenList, str, int, float, bool, type(None))
    assert all(type(part) in plain for part in parts(frozen))


class Tagged(set[str]):
    """A kind of set."""


class Tags(set[str]):
    def __json__(self) -> object:
        return sorted(self)


@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: [v], lambda v: Holder((v,)), lambda v: Holder({"x": v})]
)
@pytest.mark.parametrize(
    "value",
    [{"a"}, frozenset(), b"x", bytearray(b"x"), memoryview(b"x"), Tagged(), Struct({1})],
    ids=lambda value: type(value).__name__,
)
def test_sets_and_bytes_do_not_say_how_they_become_json(value: Any, wrap: Any) -> None:
    """What is read back would be a list in any order, or base64: at no depth is that made of them silently."""
    with pytest.raises(NotJSONError, match=r"metadata 'k' is of type \w+, which is not JSON"):
        freeze(wrap(value), "metadata 'k'")


def test_a_set_that_says_how_it_becomes_json_is_converted() -> None:
    """It is like any other type."""
    assert freeze(Tags({"pear", "apple"})) == ["apple", "pear"]


def test_what_a_type_raises_while_it_becomes_json_is_its_own_error() -> None:
    """A bug in `__json__` is not hidden behind ours."""

    class Broken:
        def __json__(self) -> object:
            raise KeyError("inner bug")

    with pytest.raises(KeyError, match="inner bug"):
        freeze(Broken())


# --- text ---------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_that_utf8_can_hold_passes_as_it_is(text: str) -> None:
    """Any language, any emoji, any control character."""
    assert checked_text(text) is text


@given(
    st.text(st.characters(exclude_categories=["Cs"])), st.characters(categories=["Cs"]), st.text()
)
def test_text_with_half_a_character_is_refused_where_it_enters(
    before: str, half: str, after: str
) -> None:
    """Not when the state is saved, when nobody knows any more where it came from."""
    with pytest.raises(
        NotJSONError, match=rf"the prompt is not valid Unicode .position {len(before)}"
    ):
        checked_text(before + half + after, "the prompt")


def test_what_is_not_text_is_refused_as_text() -> None:
    """Bytes are not text, and the error says so."""
    with pytest.raises(NotJSONError, match="the prompt is b'x'"):
        checked_text(b"x", "the prompt")  # type: ignore[arg-type]


def test_a_dict_is_frozen_once() -> None:
    """A dict that is frozen already is taken as it is."""
    frozen = freeze_dict({"a": {"b": 1}})
    assert freeze_dict(frozen) is frozen
    assert freeze({"x": frozen})["x"] is frozen
