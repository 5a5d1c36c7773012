"""Reads, writes and locks a wallet's file, in the form and with the lock of the `tacit` commands."""

import json
import os
import sqlite3
import stat
from typing import Any

from .encoding import from_hex
from .errors import WalletInUse
from .sealed import PasswordKey, salt_of

_CLEAR, _SEALED = 1, 3


class WalletFile:
    """One path. It stays sealed under the password that opened it."""

    def __init__(self, path: str, password: str | None = None):
        self.path = os.path.abspath(path)
        self._password, self._key = password, None
        # Members of another program, as the payer's seed of a page: written as they were read.
        self._others: dict[str, Any] = {}
        self._lock: sqlite3.Connection | None = None

    def read(self) -> tuple[bytes, dict[str, Any]]:
        """Seed and state. Raises FileNotFoundError; ValueError for no wallet, another password and a file that others may read."""
        found = os.lstat(self.path)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("the wallet is no plain file: name the file itself")
        if os.name == "posix" and found.st_mode & 0o077:
            raise ValueError("the wallet can be read or written by others: chmod 600 it")
        with open(self.path, encoding="utf-8") as file:
            content = json.load(file)
        if isinstance(content, dict) and content.get("version") == _SEALED:
            salt = salt_of(content.get("sealed"))
            if self._password is None:
                raise ValueError("the wallet is encrypted: give its password")
            self._key = PasswordKey(self._password, salt)
            content = json.loads(self._key.unseal(content["sealed"]))
        elif not isinstance(content, dict) or content.get("version", _CLEAR) != _CLEAR:
            raise ValueError("this file is not a wallet that this program reads")
        if not isinstance(content.get("state"), dict):
            raise ValueError("this file is not a wallet that this program reads")
        self._others = {name: value for name, value in content.items() if name not in ("version", "seed", "state")}
        return from_hex(content.get("seed"), 32), content["state"]

    def write(self, seed: bytes, state: dict[str, Any]) -> None:
        """Content and name are on disk when it returns; an interrupted save leaves the previous file."""
        inner: dict[str, Any] = {**self._others, "seed": seed.hex(), "state": state}
        if self._password is not None:
            self._key = self._key or PasswordKey(self._password)
            content: dict[str, Any] = {"version": _SEALED, "sealed": self._key.seal(json.dumps(inner))}
        else:
            content = {"version": _CLEAR, **inner}
        following = f"{self.path}.new"
        # The remains of an interrupted save keep their mode, and a link there leads elsewhere.
        if os.path.lexists(following):
            os.unlink(following)
        handle = os.open(following, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(content, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(following, self.path)
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def lock(self) -> None:
        """
        Holds the file against every other program until `release`, or the end of this process. Raises WalletInUse, OSError.
        """
        if self._lock is not None:
            return
        lock = None
        try:
            lock = sqlite3.connect(f"{self.path}.lock", timeout=0, isolation_level=None, check_same_thread=False)
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if lock is not None:
                lock.close()
            if "locked" in str(error):
                raise WalletInUse("another program uses the wallet: wait for it to end") from error
            raise OSError("the wallet's lock cannot be written") from error
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
