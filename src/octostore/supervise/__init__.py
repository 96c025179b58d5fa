"""Run other programs' commands under a claim, so that nothing they start outlives it.

Two processes watch a command. `octostore run` holds the claim. The guardian, between it and the command, knows when the
lease ends and stops the command by itself, even if `octostore run` is paused or killed.
"""
