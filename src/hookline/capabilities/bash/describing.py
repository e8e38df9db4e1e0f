"""What a model is told about the tools, which depends on where commands run."""

from __future__ import annotations

from typing import NamedTuple

from hookline.containment import Sandbox


class Words(NamedTuple):
    """The descriptions of the tools that differ."""

    bash: str
    exec: str


def describe(sandbox: Sandbox, *, keep: bool, timeout: float) -> Words:
    """What to tell about bash and exec."""
    contained = sandbox.status.contained
    where = f"in a sandbox, in {sandbox.root}" if contained else f"on the host, in {sandbox.root}"
    rules = _CONTAINED.format(root=sandbox.root) if contained else _ON_THE_HOST
    kept = _KEPT if keep else _NOT_KEPT
    ends = f"It is ended after {timeout:g} seconds, unless another timeout is given. What it starts ends with it"
    return Words(
        bash=f"Run a command in a shell, {where}.\n\n{rules} {kept} {ends}, {_GOES_ON}",
        exec=f"Run a program with its arguments, without a shell, {where}.\n\n{rules} {ends}.",
    )


_CONTAINED = (
    "It can write in {root} and /tmp only, has no network and sees no credentials; files that configure other "
    "programs (.git/config, .git/hooks, .vscode and their like) are read-only."
)
_ON_THE_HOST = "Nothing contains it: a person is asked about what is not plainly harmless."
_KEPT = "The working directory and exported variables last from one command to the next."
_NOT_KEPT = "Every command starts in the work directory, with the same variables: `cd` and `export` do not last."
_GOES_ON = "so use background=true for what is to go on, not `&` or nohup."
