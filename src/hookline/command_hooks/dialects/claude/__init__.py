"""Claude Code's hooks: the protocol, the settings files, the form of tool results, and the transcript."""
