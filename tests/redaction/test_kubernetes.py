"""Secrets of Kubernetes."""

from __future__ import annotations

import json

import pytest

from hookline.redaction import redact, redact_value

MARK = "[redacted:secret]"
VALUE = "aHVudGVyMg=="


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"apiVersion: v1\ndata:\n  a: {VALUE}\n  b.c: {VALUE}\nkind: Secret\n",
         f"apiVersion: v1\ndata:\n  a: {MARK}\n  b.c: {MARK}\nkind: Secret\n"),
        (f"kind: Secret\ndata:\n  a: \"{VALUE}\"\ntype: Opaque\n",
         f'kind: Secret\ndata:\n  a: "{MARK}"\ntype: Opaque\n'),
        ("kind: 'Secret'\nstringData:\n  user: ann and bob\n",
         f"kind: 'Secret'\nstringData:\n  user: {MARK}\n"),
        (f"items:\n- apiVersion: v1\n  data:\n    a: {VALUE}\n  kind: Secret\n",
         f"items:\n- apiVersion: v1\n  data:\n    a: {MARK}\n  kind: Secret\n"),
        (f"kind: Secret\ndata:\n  a: {VALUE}\n---\nkind: ConfigMap\ndata:\n  a: {VALUE}\n",
         f"kind: Secret\ndata:\n  a: {MARK}\n---\nkind: ConfigMap\ndata:\n  a: {VALUE}\n"),
        (f'{{"data":{{"a":"{VALUE}","b":"{VALUE}"}},"kind":"Secret"}}',
         f'{{"data":{{"a":"{MARK}","b":"{MARK}"}},"kind":"Secret"}}'),
        ('last: |\n  {\\"data\\":{\\"a\\":\\"' + VALUE + '\\"},\\"kind\\":\\"Secret\\"}',
         'last: |\n  {\\"data\\":{\\"a\\":\\"' + MARK + '\\"},\\"kind\\":\\"Secret\\"}'),
    ],
)  # fmt: skip
def test_the_data_of_a_secret_is_found(text: str, shown: str) -> None:
    """Under whatever name, in YAML and in JSON; a ConfigMap is left alone."""
    assert redact(text) == shown
    assert redact(shown) == shown


def test_the_data_of_a_secret_is_found_as_a_value() -> None:
    """As a tool that talks to a cluster gives it, alone and in a list."""
    secret = {"kind": "Secret", "metadata": {"name": "x"}, "data": {"a": VALUE}, "type": "Opaque"}
    plain = {"kind": "ConfigMap", "data": {"a": VALUE}}
    shown = redact_value({"items": [secret, plain]})
    assert shown["items"][0]["data"] == {"a": MARK}
    assert shown["items"][1] == plain
    assert redact_value(shown) is shown
    assert VALUE not in redact(json.dumps(secret, indent=2))
