"""The wire of hermes-daemon in types: content, events, methods, errors, envelope and framing. Imports msgspec only."""

PROTOCOL_VERSION = "1.0"
