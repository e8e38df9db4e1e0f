"""What a model is told about the tools, which depends on where commands run."""

from __future__ import annotations

from typing import NamedTuple

from hookline.containment import Sandbox
from hookline.containment.sandbox import Place


class Descriptions(NamedTuple):
    """The descriptions of the tools that differ."""

    bash: str
    exec: str


def describe(sandbox: Sandbox, *, keep: bool, timeout: float) -> Descriptions:
    """What to tell about bash and exec."""
    place = sandbox.status.place
    where = (
        f"on the host, in {sandbox.root}" if place == "host" else f"in a sandbox, in {sandbox.root}"
    )
    rules = _RULES[place].format(root=sandbox.root)
    kept = _KEPT if keep else _NOT_KEPT
    ends = f"It is ended after {timeout:g} seconds, unless another timeout is given. What it starts ends with it"
    return Descriptions(
        bash=f"Run a command in a shell, {where}.\n\n{rules} {kept} {ends}, {_GOES_ON}",
        exec=f"Run a program with its arguments, without a shell, {where}.\n\n{rules} {ends}.",
    )


_RULES: dict[Place, str] = {
    "read-only": "It can write nothing that lasts (/tmp and the home directory are gone with it), has no network and "
    'sees no credentials; place="workspace" lets it write in {root}, if a person agrees.',
    "workspace": "It can write in {root} and /tmp only, has no network and sees no credentials; files that configure "
    "other programs (.git/config, .git/hooks, .vscode and their like) are read-only.",
    "host": "Nothing contains it: a person is asked about what is not plainly harmless.",
}
_KEPT = "The working directory and exported variables last from one command to the next."
_NOT_KEPT = "Every command starts in the work directory, with the same variables: `cd` and `export` do not last."
_GOES_ON = "so use background=true for what is to go on, not `&` or nohup."
