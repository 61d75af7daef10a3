"""The native dialect: one function for each row of hermes_protocol.methods.METHODS."""
