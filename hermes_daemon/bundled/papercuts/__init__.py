"""Papercuts: small annoyances, counted."""
