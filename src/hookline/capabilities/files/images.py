"""Images that were read, shown to a model that can see: as attachments of a message after the step."""

from __future__ import annotations

from hookline.capabilities.files.ledger import RESULT_KEY
from hookline.containment import FileJail
from hookline.errors import FileJailError
from hookline.lifecycle import StepHookContext
from hookline.state import Attachment, ToolResult

IMAGE_KEY = "image"
"""Where in a result's metadata: the media type, if what was read is an image."""
LARGEST = 5 * 1024 * 1024
"""Bytes of an image that models take."""


def with_images(jail: FileJail, ctx: StepHookContext) -> StepHookContext | None:
    """The conversation with the images that this step has read."""
    results = ctx.step.results if ctx.step is not None else ()
    found = [image for each in results if (image := _image(jail, each)) is not None]
    if not found:
        return None
    words = f"What was read: {', '.join(image.name for image in found)}"
    state = ctx.state.with_user_message(words, by="files-images", attachments=tuple(found))
    return ctx.with_state(state)


def _image(jail: FileJail, result: ToolResult) -> Attachment | None:
    media_type, file = result.metadata.get(IMAGE_KEY), result.metadata.get(RESULT_KEY)
    if result.name != "read" or not result.is_success or not media_type or not file:
        return None
    try:
        content = jail.read_bytes(file["path"], limit=LARGEST)
    except FileJailError:
        return None
    return Attachment.from_bytes(content, media_type, file["path"])
