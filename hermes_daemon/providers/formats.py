"""The wire formats by the names that `providers.NAME.format` takes."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_daemon.providers.anthropic_messages import MESSAGES
from hermes_daemon.providers.ollama_chat import OLLAMA
from hermes_daemon.providers.openai_chat import CHAT
from hermes_daemon.providers.openai_responses import RESPONSES
from hermes_daemon.providers.wire import FormatName, WireFormat

FORMATS: Mapping[FormatName, WireFormat] = {format.name: format for format in (CHAT, RESPONSES, MESSAGES, OLLAMA)}
