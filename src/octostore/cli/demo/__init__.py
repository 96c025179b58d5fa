"""`octostore demo`: five real processes, one job, a real `kill -9`, and what becomes of the job."""
