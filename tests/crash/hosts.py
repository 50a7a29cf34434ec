"""Hosts as network namespaces: each has its own address and its own disk, and can be cut off or lost.

All hosts are connected to a switch, a bridge in its own namespace, so nothing outside these namespaces changes. The
process that uses them has to run in the control namespace, which ``run_on_control_host`` starts.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_CONTROL_VARIABLE = "MILLSTREAM_CRASH_NETWORK"
_SUBNET = "10.213.0"
_CONTROL = 100
"""The last number of the control host's address."""
_DISK_MEGABYTES = 512
_FILLER = "filler"


def namespaces_missing() -> str | None:
    """Return why namespaces cannot be made here, or None if they can."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    if shutil.which("ip") is None:
        return "the command ip (Debian: iproute2) is not installed"
    name = f"ms-probe-{os.getpid()}"
    done = _ip("netns", "add", name, check=False)
    if done.returncode != 0:
        return f"network namespaces are not allowed: {done.stderr.strip()}"
    done = _ip("-n", name, "link", "add", "probe0", "type", "bridge", check=False)
    _ip("netns", "delete", name)
    return f"bridges are not allowed: {done.stderr.strip()}" if done.returncode != 0 else None


class Host:
    """A machine of the network."""

    def __init__(self, network: Network, number: int, directory: Path) -> None:
        self.network = network
        self.number = number
        self.address = f"{_SUBNET}.{number}"
        self.directory = directory / self.address
        """The disk of the host, which is a file system in memory."""
        self._namespace = f"{network.prefix}-{number}"
        self._port = f"port{number}"
        _ip("netns", "add", self._namespace)
        _ip("-n", network.switch, "link", "add", self._port, "type", "veth", "peer", "name", "eth0")
        _ip("-n", network.switch, "link", "set", "eth0", "netns", self._namespace)
        _ip("-n", network.switch, "link", "set", self._port, "master", "bridge", "up")
        _ip("-n", self._namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for interface in ("eth0", "lo"):
            _ip("-n", self._namespace, "link", "set", interface, "up")
        self.directory.mkdir(parents=True, exist_ok=True)
        if number != _CONTROL:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MEGABYTES}m", "tmpfs", str(self.directory)]
            subprocess.run(mount, check=True)

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """Return a command that runs on this host."""
        return ["ip", "netns", "exec", self._namespace, *map(str, command)]

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a process on this host; its output goes to a file on the disk of the host."""
        with (self.directory / "output.log").open("a") as output:
            return subprocess.Popen(
                self.command(command), env={**os.environ, **environment}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=output, text=True, start_new_session=True,
            )  # fmt: skip

    def cut_off(self) -> None:
        """Take the link down: processes go on, but reach no other host."""
        _ip("-n", self.network.switch, "link", "set", self._port, "down")

    def reconnect(self) -> None:
        """Take the link up again."""
        _ip("-n", self.network.switch, "link", "set", self._port, "up")

    def kill(self) -> None:
        """Kill all processes, as if the power failed; the disk stays."""
        while processes := _ip("netns", "pids", self._namespace).stdout.split():
            for process in processes:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)

    def fill_disk(self) -> None:
        """Write to the disk until it is full."""
        with suppress(OSError), (self.directory / _FILLER).open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))

    def free_disk(self) -> None:
        """Delete what has filled the disk."""
        (self.directory / _FILLER).unlink()

    def lose(self) -> None:
        """Kill all processes and delete the disk."""
        self.kill()
        for path in self.directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def remove(self) -> None:
        """Kill all processes and remove the host from the network."""
        self.kill()
        subprocess.run(["umount", "-l", str(self.directory)], check=True)
        _ip("netns", "delete", self._namespace)


class Network:
    """A switch and the hosts that are connected to it, for the process in its control namespace."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.switch = f"{prefix}-switch"

    @classmethod
    def current(cls) -> Network:
        """Return the network whose control host runs this process."""
        return cls(os.environ[_CONTROL_VARIABLE])

    @property
    def control_address(self) -> str:
        return f"{_SUBNET}.{_CONTROL}"

    def create(self) -> None:
        """Create the switch."""
        _ip("netns", "add", self.switch)
        _ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "bridge", "up")

    def remove(self) -> None:
        """Remove all namespaces of the network and kill what runs in them."""
        for line in _ip("netns", "list").stdout.splitlines():
            name = line.split()[0]
            if name.startswith(f"{self.prefix}-"):
                for process in _ip("netns", "pids", name).stdout.split():
                    with suppress(ProcessLookupError):
                        os.kill(int(process), signal.SIGKILL)
                _ip("netns", "delete", name)


def run_on_control_host(arguments: Sequence[str], directory: Path) -> int:
    """Run this Python with arguments on the control host of a new network, and remove the network afterwards."""
    network = Network(f"ms{os.getpid()}")
    network.create()
    try:
        control = Host(network, _CONTROL, directory)
        environment = {**os.environ, _CONTROL_VARIABLE: network.prefix}
        return subprocess.run(control.command([sys.executable, *arguments]), env=environment, check=False).returncode
    finally:
        network.remove()


def is_control_host() -> bool:
    """Whether this process runs on the control host of a network."""
    return _CONTROL_VARIABLE in os.environ


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=check)
