"""`hookline model list|get|use|remove`: the models that run in your own process, and the one that you have chosen."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

from hookline.cli.exits import Exit
from hookline.cli.guards import can_ask
from hookline.cli.model_choice import ask_for_model, check_name
from hookline.cli.terminal import print_note, print_text, report
from hookline.config import load
from hookline.config.locations import own_file
from hookline.config.own_file import write_model
from hookline.errors import ConfigError, UsageError
from hookline.providers.local.hub import PREFIX, download, hub_models
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
        print_text(f"local:{weights.name}{default}  {about}  {state}", indent=4)
    for model in hub_models():
        state = "" if model.is_intact else "damaged: "
        about = f"{state}{model.name}, {model.size / 1e6:.0f} MB"
        print_text(f"local:{model.path}  {about}", indent=4)
    print_note(f"Fetched models are kept in {models_folder()}. Any other: local:/path/to.gguf")
    return Exit.DONE


def fetch_model(arguments: argparse.Namespace) -> int:
    """Fetch a model, if it is not here or damaged."""
    if arguments.name.startswith(PREFIX):
        return _download(arguments.name, arguments.sha256)
    if arguments.sha256:
        raise UsageError(
            "--sha256 is only for a file of a hub.", remedy="Name one: hf:OWNER/REPO/FILE."
        )
    weights = find_weights(arguments.name)
    try:
        if not fetch(weights):
            print_note(f"{weights.title} is here already.")
    except KeyboardInterrupt:
        report("interrupted; nothing was kept.")
        return Exit.INTERRUPTED
    print(weights.path)
    return Exit.DONE


def fetch(weights: Weights) -> bool:
    """Fetch a model with a bar that shows how far it is; False if it is here and intact."""
    if weights.is_here and is_intact(weights):
        return False
    print_note(f"Fetching {weights.title} ...")
    bar = ProgressBar(weights.name)
    try:
        ensure(weights, progress=bar, anew=True)
    finally:
        bar.end()
    return True


def _download(name: str, sha256: str) -> int:
    """Download a file of a hub, and say how to use it."""
    bar = ProgressBar(name.rpartition("/")[2])
    try:
        model = download(name, sha256=sha256, progress=bar)
    except KeyboardInterrupt:
        bar.end()
        report("interrupted; the same command continues there.")
        return Exit.INTERRUPTED
    finally:
        bar.end()
    print_note(f"{model.name}, SHA-256 {model.sha256}")
    print_note(f"Use it: hookline model use local:{model.path}")
    print(model.path)
    return Exit.DONE


def use_model(arguments: argparse.Namespace) -> int:
    """Keep a model as the person's choice; without a name they are asked."""
    if not arguments.name and not can_ask(arguments):
        raise UsageError("no model is named.", remedy="Name one: hookline model use local:")
    model = check_name(arguments.name) if arguments.name else ask_for_model()
    path = own_file(os.environ)
    write_model(path, model)
    report(f"the model is {model} ({path}).")
    with contextlib.suppress(ConfigError):  # another command reports it
        where = load(Path.cwd()).where("model")
        if not where.startswith(str(path)):
            report(f"here, {where} names another.")
    return Exit.DONE


def remove_model(arguments: argparse.Namespace) -> int:
    """Delete a fetched model."""
    if arguments.name.startswith(PREFIX):
        found = [
            each
            for each in hub_models()
            if arguments.name in (each.name, each.name.partition("@")[0])
        ]
        for model in found:
            model.remove()
            print_note(f"{model.path} was deleted.")
        if not found:
            print_note(f"{arguments.name} is not here.")
        return Exit.DONE
    weights = find_weights(arguments.name)
    was_here = remove(weights)
    print_note(f"{weights.path} {'was deleted' if was_here else 'is not here'}.")
    return Exit.DONE
