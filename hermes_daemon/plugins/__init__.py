"""The plugin host: finds, loads and unloads guests, and gives each the context it works through."""
