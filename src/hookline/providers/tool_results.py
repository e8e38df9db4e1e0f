"""Images and files in the results of tools, as far as a provider accepts them there."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hookline.state import Attachment, ToolMessage


def fit_result(
    provider: str, message: ToolMessage, accepts: Callable[[Attachment], bool]
) -> ToolMessage:
    """A result as this provider can be sent it.

    A text file becomes part of the text. With a file that is not accepted, the result is an error that says so: the
    model would otherwise answer as if it had seen the file. To put the file into a message of the user was
    rejected: what a tool returns would then speak with the user's voice.
    """
    if not message.attachments:
        return message
    texts, files, refused = [message.text] if message.text else [], [], []
    for each in message.attachments:
        if each.is_text and each.data:
            texts.append(f"{each.name}:\n\n{each.text()}" if each.name else each.text())
        elif accepts(each):
            files.append(each)
        else:
            refused.append(f"{each.media_type} '{each.name}'" if each.name else each.media_type)
    if not refused:
        return msgspec.structs.replace(message, text="\n\n".join(texts), attachments=tuple(files))
    problem = (
        f"Error: tool '{message.name}' returned {', '.join(refused)}, and provider '{provider}' does not "
        "accept that in the result of a tool. You have not seen it."
    )
    return ToolMessage(message.call_id, message.name, "\n\n".join((problem, *texts)), is_error=True)
