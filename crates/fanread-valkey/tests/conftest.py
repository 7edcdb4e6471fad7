"""A real server with the module, for each test file, and clients of both protocols."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import pytest
import redis

MODULE = os.environ["FANREAD_MODULE"]


def free_port():
    """A port with a free one 10000 above it, for a cluster's bus."""
    while True:
        with socket.socket() as one, socket.socket() as bus:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port > 50000:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            return port


class Server:
    """A server in a folder of its own."""

    def __init__(self, *options, module=(MODULE,), port=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="omap-"))
        self.port = port or free_port()
        self.module = module
        self.options = options
        self.process = None
        self.start()

    def start(self, *options):
        command = [os.environ.get("FANREAD_SERVER", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--save", "", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"]
        command += ["--logfile", str(self.folder / "log"), *self.options, *options]
        command += ["--loadmodule", *self.module]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(self.folder / "stderr").open("ab"))
        self.client().execute_command("PING")

    def client(self, protocol=2, **options):
        """A client, once the server answers."""
        deadline = time.monotonic() + 60
        while True:
            client = redis.Redis(port=self.port, protocol=protocol, **options)
            try:
                client.ping()
                return client
            except redis.BusyLoadingError:
                pass
            except redis.ConnectionError:
                assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else "no log"

    def kill(self):
        """Ends it as a loss of power would, as far as a process can tell."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def restart(self, *options):
        if self.process.poll() is None:
            self.stop()
        self.start(*options)

    def close(self):
        crashed = self.process.poll() is not None and self.process.returncode not in (0, -9, -15)
        if self.process.poll() is None:
            self.kill()
        text, errors = self.log(), (self.folder / "stderr").read_text(errors="replace") + self.log()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert not crashed and "crashed by signal" not in text, text
        assert errors.count("panicked at") == errors.count("as the test wants it"), errors


@pytest.fixture
def server_of():
    """Starts servers that end with the test."""
    servers = []

    def start(*options, **more):
        servers.append(Server(*options, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def shared():
    """One server for the tests of a file that need no other."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(shared, request):
    """A client of either protocol, whose database is empty."""
    client = shared.client(protocol=request.param)
    client.flushall()
    client.protocol = request.param
    return client
