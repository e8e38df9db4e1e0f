"""The hook of this folder."""

from hookline import HookOutcome, ToolHookContext


def no_secrets(ctx: ToolHookContext) -> HookOutcome | None:
    """What is in a .env file stays there."""
    if str(ctx.tool_call.args["path"]).endswith(".env"):
        return HookOutcome.block("the policy forbids reading .env files")
    return None
