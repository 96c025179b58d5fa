"""Commands of other programs, run under a claim: nothing that they started outlives it.

Two processes watch a command. The one that was called (`octostore run`) holds the claim. Between it and the command
stands the guardian, which knows until when the lease lasts and needs nobody to tell it that this moment has come: it
stops the command also when the first one is paused or killed.
"""
