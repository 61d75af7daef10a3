"""The interactive chat: streamed answers, tools as they run, questions, several people on one session."""
