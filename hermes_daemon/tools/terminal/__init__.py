"""The terminal tool: commands in a shell of the session, each in a process group of its own."""
