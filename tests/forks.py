"""Runs ``python -m MODULE`` in processes that are forked from one which has imported already what takes long.

A process has all of its own that a started one has: streams, folder, environment, modules, exit status. It shares the
hash seed with the others, and sees what `imported` names as imported.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, NoReturn

TESTS = Path(__file__).resolve().parent
_LENGTH = 8


class Fork:
    """A process made by `Forks`, with what `subprocess.Popen` offers of one."""

    def __init__(self, command: Sequence[str], connection: socket.socket, streams: Sequence[BinaryIO | None]) -> None:
        self.args = command
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._connection = connection
        self.pid = int.from_bytes(_received(connection, _LENGTH), "big")

    def poll(self) -> int | None:
        """The exit status, None as long as the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, as soon as the process has ended."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                status = _received(self._connection, _LENGTH)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self.returncode = int.from_bytes(status, "big", signed=True)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """A server of processes in which modules are imported."""

    def __init__(self, imported: Sequence[str], environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        self._variables = _variables_of_python(environment)
        command = [sys.executable, __file__, str(theirs.fileno()), *imported]
        self._server = subprocess.Popen(command, env=environment, cwd=TESTS, pass_fds=[theirs.fileno()])
        theirs.close()

    def can_run(self, environment: Mapping[str, str]) -> bool:
        """Whether a process with these variables may be forked: those that Python reads at its start are the same."""
        return _variables_of_python(environment) == self._variables

    def command(self, module: str, *arguments: str) -> tuple[list[str], int]:
        """A command that runs a module in a fork, for what starts processes itself; the descriptor that it inherits."""
        number = self._control.fileno()
        return [sys.executable, "-I", "-S", str(TESTS / "forked.py"), str(number), module, *arguments], number

    def start(
        self,
        module: str,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        new_session: bool = False,
    ) -> Fork:
        """Run a module; a stream is a descriptor, `PIPE` or `DEVNULL`."""
        assert self.can_run(env)
        ends: list[int] = []  #: those of the process
        files: list[BinaryIO | None] = []  #: those of the caller
        for number, given in enumerate((stdin, stdout, stderr)):
            mine: BinaryIO | None = None
            end = os.open(os.devnull, os.O_RDWR) if given == subprocess.DEVNULL else -1
            if given == subprocess.PIPE:
                reading, writing = os.pipe()
                end, own = (reading, writing) if number == 0 else (writing, reading)
                mine = os.fdopen(own, "rb" if number else "wb")
            ends.append(os.dup(given) if end < 0 else end)
            files.append(mine)
        connection, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"."], [theirs.fileno(), *ends])
        for descriptor in (theirs.detach(), *ends):
            os.close(descriptor)
        request = json.dumps([module, arguments, str(cwd), dict(env), new_session]).encode()
        connection.sendall(len(request).to_bytes(_LENGTH, "big") + request)
        return Fork([module, *arguments], connection, files)

    def run(
        self,
        module: str,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """What a module prints, given a standard input, and how it ends."""
        pipe = subprocess.PIPE
        with tempfile.TemporaryFile() as given, ThreadPoolExecutor(2) as readers:
            given.write(stdin)
            given.seek(0)
            process = self.start(module, *arguments, cwd=cwd, env=env, stdin=given.fileno(), stdout=pipe, stderr=pipe)
            assert process.stdout and process.stderr
            with process.stdout, process.stderr:
                printed = [readers.submit(stream.read) for stream in (process.stdout, process.stderr)]
                try:
                    status = process.wait(timeout)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
                return subprocess.CompletedProcess(process.args, status, printed[0].result(), printed[1].result())

    def stop(self) -> None:
        """End the server."""
        self._control.close()
        self._server.wait()


def _variables_of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """What Python reads at its start, but for what a fork can still do."""
    names = [name for name in environment if name.startswith(("PYTHON", "LC_", "LANG")) and name != "PYTHONUNBUFFERED"]
    return {name: environment[name] for name in sorted(names)}


def _received(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        if not more:
            raise EOFError("the server of processes has ended")
        data += more
    return data


# In the server


def _serve(control: socket.socket, imported: Sequence[str]) -> None:
    """Fork for each request, until there are no more; returns in a fork, when its module is to be run."""
    shared: list[str] = []
    atexit.register(_keep, shared)  # the first that is registered is called last
    for name in imported:
        with contextlib.suppress(ImportError):  # of a package that need not be installed
            importlib.import_module(name)
    shared += sys.modules.keys() - {"sys", "builtins", "__main__"}
    gc.collect()
    gc.freeze()  # what is there stays; looking at it again in each process would copy its pages
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not descriptors:
            sys.exit()
        if os.fork() == 0:
            control.close()
            _attend(socket.socket(fileno=descriptors[0]), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)
        while _ended():
            pass


def _keep(modules: Sequence[str]) -> None:
    """Let Python end without freeing modules: that would copy the pages of all that was there at the fork."""
    for name in modules:
        sys.modules.pop(name, None)


def _ended() -> bool:
    """Whether a child has ended that was not yet waited for."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _attend(connection: socket.socket, streams: Sequence[int]) -> NoReturn:
    """Fork the process for one request, tell its number, wait for it and tell its exit status."""
    request = json.loads(_received(connection, int.from_bytes(_received(connection, _LENGTH), "big")))
    child = os.fork()
    if child == 0:
        connection.close()
        _become(streams, *request)
    for descriptor in streams:
        os.close(descriptor)
    connection.sendall(child.to_bytes(_LENGTH, "big"))
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):  # nobody waits for it
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, "big", signed=True))
    os._exit(0)


def _become(
    streams: Sequence[int],
    module: str,
    arguments: Sequence[str],
    folder: str,
    environment: Mapping[str, str],
    new_session: bool,
) -> NoReturn:
    """Run a module as ``python -m`` does."""
    if new_session:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, (name, old) in enumerate((("stdin", sys.stdin), ("stdout", sys.stdout), ("stderr", sys.stderr))):
        assert isinstance(old, TextIOWrapper)
        binary = open(number, "wb" if number else "rb", closefd=False)  # noqa: SIM115
        buffered = number != 2 and not binary.isatty()
        stream = TextIOWrapper(binary, old.encoding, old.errors, line_buffering=not buffered)
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in environment)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[0] = folder
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
