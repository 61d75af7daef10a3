"""A look at the plugins, which changes nothing."""
