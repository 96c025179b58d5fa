"""OctoStore for agents: its calls as tools of the Model Context Protocol. It heartbeats for them by itself."""
