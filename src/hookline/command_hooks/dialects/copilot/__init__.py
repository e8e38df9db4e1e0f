"""Copilot CLI's hooks: the protocol, and the files that it shares with VS Code."""
