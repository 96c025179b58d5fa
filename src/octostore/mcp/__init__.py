"""OctoStore for agents: its calls as Model Context Protocol tools. It sends their heartbeats for them."""
