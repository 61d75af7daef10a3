"""The search_files tool: ripgrep where it is installed, else the same answers from Python."""
