"""Small disks for tests that fill them up."""

import subprocess


def may_mount() -> bool:
    try:
        trial = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
        return subprocess.run(trial, check=False, capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False
