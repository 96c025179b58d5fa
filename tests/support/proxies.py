"""nginx and Caddy in front of a server, configured by a document."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_SECONDS, until
from tests.support.starting import start

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"
_NGINX = """
daemon off; error_log {folder}/error.log; pid {folder}/pid;
events {}
http {
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {lines}
}
"""
_CADDY = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"


@contextmanager
def run_nginx(folder: Path, lines: str, port: int) -> Iterator[None]:
    """`lines` go into its `http` block, and make it listen on `port`."""
    config = folder / "nginx.conf"
    config.write_text(_NGINX.replace("{folder}", str(folder)).replace("{lines}", lines), encoding="utf-8")
    with _running(["nginx", "-p", str(folder), "-c", str(config)], folder, port):
        yield


@contextmanager
def run_caddy(folder: Path, lines: str, port: int) -> Iterator[None]:
    config = folder / "Caddyfile"
    config.write_text(_CADDY + lines, encoding="utf-8")
    with _running(["caddy", "run", "--config", str(config), "--adapter", "caddyfile"], folder, port):
        yield


@contextmanager
def _running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    program = find_program(command[0])
    env = {"HOME": str(folder), "PATH": PATH}
    with (folder / "log").open("wb") as log:
        process = start([program, *command[1:]], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        until(lambda: _is_listening(port) or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def find_program(name: str) -> str:
    program = shutil.which(name, path=PATH)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


def _is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS).close()
    except OSError:
        return False
    return True
