"""A PostgreSQL server on a free port, with its files in a temporary directory. Each journal has a schema of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from ports import free_port

from hookline.journal import PostgresJournal

_BIN = max(Path("/usr/lib/postgresql").glob("*/bin/postgres"), default=None)
PROGRAMS = None if _BIN is None else _BIN.parent
"""Where the programs of the server are, if it is installed: scripts/system_tools.py does that."""
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
_SECONDS = 60


def _as_other_user() -> dict[str, Any]:
    """The server refuses to be started by root."""
    return {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


def wait_until(is_ready: Callable[[], bool], what: str) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + _SECONDS
    while not is_ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class PostgresServer:
    """A server that listens on loopback, with the superuser `boss` and the database `agents`."""

    user = "boss"

    def __init__(self, *, fsync: bool = False, network: tuple[str, str] | None = None) -> None:
        """`network` is one more address to listen at, and who may come from there."""
        assert PROGRAMS is not None
        self._fsync = fsync
        self._network = network
        self._place = tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True)
        self.files = Path(self._place.name) / "data"
        self._numbers = itertools.count(1)
        self.port = free_port()
        if os.geteuid() == 0:
            os.chown(self._place.name, 65534, 65534)
        self._process: subprocess.Popen[bytes] | None = None
        self._make()

    def _make(self) -> None:
        self._run(
            "initdb", "-D", str(self.files), "-U", self.user, "-A", "trust", "-E", "UTF8", "-N"
        )
        if self._network is not None:
            with (self.files / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {self._network[1]} trust\n")
        self.start()
        self.ask("CREATE DATABASE agents", database="postgres")

    def _run(self, program: str, *arguments: str) -> None:
        assert PROGRAMS is not None
        done = subprocess.run(
            [PROGRAMS / program, *arguments],
            cwd=self._place.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **_as_other_user(),
        )
        assert done.returncode == 0, done.stdout.decode()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert PROGRAMS is not None
        settings = {
            "port": self.port,
            "listen_addresses": ",".join(["127.0.0.1", *(self._network or ())[:1]]),
            "unix_socket_directories": self._place.name,
            "max_connections": 200,
            "fsync": "on" if self._fsync else "off",  # nobody cuts the power
            "autovacuum": "off",  # a process now and then, which tests that count processes would find
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = subprocess.Popen(
            [PROGRAMS / "postgres", "-D", str(self.files), *options],
            cwd=self._place.name,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_as_other_user(),
        )
        wait_until(self._answers, "the server starts")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, *, with_signal: signal.Signals = signal.SIGINT) -> None:
        """Stop it: SIGINT ends all connections, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(with_signal)
            self._process.wait(_SECONDS)
            self._process = None

    def close(self) -> None:
        """Stop it, and remove its files."""
        self.stop()
        self._place.cleanup()

    def url(
        self,
        database: str = "agents",
        *,
        user: str | None = None,
        port: int | None = None,
        host: str = "127.0.0.1",
    ) -> str:
        """Where it is."""
        return f"postgresql://{user or self.user}@{host}:{port or self.port}/{database}"

    def new_schema(self) -> str:
        """A schema with the tables of a journal."""
        schema = f"journal_{next(self._numbers)}"
        PostgresJournal(self.url(), schema=schema).migrate_sync()
        return schema

    def ask(self, query: str, *values: object, database: str = "agents") -> list[Any]:
        """What a query gives to the superuser."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


class Standby(PostgresServer):
    """A server that follows another one, until it is promoted."""

    def __init__(self, primary: PostgresServer) -> None:
        self._source = primary.port
        super().__init__()

    def _make(self) -> None:
        place = ("-h", "127.0.0.1", "-p", str(self._source), "-U", self.user)
        self._run("pg_basebackup", "-D", str(self.files), "-R", "-c", "fast", *place)
        self.start()


class PgBouncer:
    """A pooler in front of a server."""

    def __init__(self, server: PostgresServer, mode: str, *settings: str) -> None:
        assert PGBOUNCER is not None
        self._place = tempfile.TemporaryDirectory(prefix="pgbouncer-", ignore_cleanup_errors=True)
        self.port = free_port()
        place = Path(self._place.name)
        (place / "users").write_text(f'"{server.user}" ""\n')
        (place / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"agents = host=127.0.0.1 port={server.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {place / 'users'}\npool_mode = {mode}\n"
            + "".join(f"{each}\n" for each in settings)
        )
        for each in (place, *place.iterdir()):
            if os.geteuid() == 0:
                os.chown(each, 65534, 65534)
        self._process = subprocess.Popen(
            [PGBOUNCER, str(place / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **_as_other_user(),
        )
        wait_until(self._listens, "the pooler starts")

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def close(self) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()
        self._place.cleanup()
