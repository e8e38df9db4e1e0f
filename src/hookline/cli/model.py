"""`hookline model list|get|remove`: the models that run in your own process."""

from __future__ import annotations

import argparse
import sys

from hookline.cli.exits import Exit
from hookline.cli.terminal import print_row
from hookline.providers.local.weights import (
    DEFAULT,
    KNOWN,
    ProgressBar,
    Weights,
    ensure,
    find_weights,
    is_intact,
    models_folder,
    remove,
)


def list_models(_arguments: argparse.Namespace) -> int:
    """The models that can be fetched, and which are here."""
    for weights in KNOWN.values():
        state = "not fetched"
        if weights.is_here:
            state = str(weights.path) if is_intact(weights) else f"damaged: {weights.path}"
        default = " (default)" if weights is DEFAULT else ""
        megabytes = f"{weights.source.size / 1e6:.0f} MB"
        about = f"{weights.title}, {megabytes}, {weights.license}"
        print_row(f"local:{weights.name}{default}  {about}  {state}", 4)
    print(
        f"Fetched models are kept in {models_folder()}. Any other: local:/path/to.gguf",
        file=sys.stderr,
    )
    return Exit.DONE


def fetch_model(arguments: argparse.Namespace) -> int:
    """Fetch a model, if it is not here or damaged."""
    weights = find_weights(arguments.name)
    try:
        if not fetch(weights):
            print(f"{weights.title} is here already.", file=sys.stderr)
    except KeyboardInterrupt:
        print("hookline: interrupted; nothing was kept.", file=sys.stderr)
        return Exit.INTERRUPTED
    print(weights.path)
    return Exit.DONE


def fetch(weights: Weights) -> bool:
    """Fetch a model with a bar that shows how far it is; False if it is here and intact."""
    if weights.is_here and is_intact(weights):
        return False
    print(f"Fetching {weights.title} ...", file=sys.stderr)
    bar = ProgressBar(weights.name)
    try:
        ensure(weights, progress=bar, anew=True)
    finally:
        bar.end()
    return True


def remove_model(arguments: argparse.Namespace) -> int:
    """Delete a fetched model."""
    weights = find_weights(arguments.name)
    was_here = remove(weights)
    print(f"{weights.path} {'was deleted' if was_here else 'is not here'}.", file=sys.stderr)
    return Exit.DONE
