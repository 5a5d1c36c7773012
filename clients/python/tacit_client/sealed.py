"""Opens and seals a wallet's text under a password: argon2id, then XChaCha20-Poly1305, as the `tacit` commands do."""

import os
import unicodedata
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from .encoding import from_hex

_SALT_BYTES, _NONCE_BYTES = 16, 24
_COST = {"length": 32, "iterations": 3, "lanes": 1, "memory_cost": 65_536}
_CONSTANT = b"expand 32-byte k"
_QUARTERS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)) + (
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)


class PasswordKey:
    """A key and the salt it was derived under, which takes a tenth of a second and 64 MiB."""

    def __init__(self, password: str, salt: bytes | None = None):
        self.salt = salt or os.urandom(_SALT_BYTES)
        text = unicodedata.normalize("NFKC", password).encode()
        self._key = Argon2id(salt=self.salt, **_COST).derive(text)

    def seal(self, text: str) -> dict[str, str]:
        nonce = os.urandom(_NONCE_BYTES)
        box = _cipher(self._key, nonce).encrypt(_inner_nonce(nonce), text.encode(), None)
        return {"salt": self.salt.hex(), "nonce": nonce.hex(), "box": box.hex()}

    def unseal(self, sealed: dict[str, Any]) -> str:
        """Raises ValueError for another password or changed bytes."""
        nonce, box = from_hex(sealed["nonce"], _NONCE_BYTES), bytes.fromhex(sealed["box"])
        try:
            return _cipher(self._key, nonce).decrypt(_inner_nonce(nonce), box, None).decode()
        except InvalidTag as error:
            raise ValueError("the password is another one, or the file is damaged") from error


def salt_of(sealed: Any) -> bytes:
    """Raises ValueError when `sealed` has not the form of a sealed text."""
    if not isinstance(sealed, dict) or not all(isinstance(sealed.get(name), str) for name in ("nonce", "box")):
        raise ValueError("this file is no wallet: restore its backup")
    return from_hex(sealed.get("salt"), _SALT_BYTES)


def _cipher(key: bytes, nonce: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(_hchacha20(key, nonce[:16]))


def _inner_nonce(nonce: bytes) -> bytes:
    return bytes(4) + nonce[16:]


def _hchacha20(key: bytes, nonce: bytes) -> bytes:
    """The key of one nonce (draft-irtf-cfrg-xchacha-03, section 2.2)."""
    block = _CONSTANT + key + nonce
    words = [int.from_bytes(block[at : at + 4], "little") for at in range(0, 64, 4)]
    for _ in range(10):
        for a, b, c, d in _QUARTERS:
            for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                words[x] = (words[x] + words[y]) & 0xFFFFFFFF
                mixed = words[z] ^ words[x]
                words[z] = (mixed << bits | mixed >> (32 - bits)) & 0xFFFFFFFF
    return b"".join(word.to_bytes(4, "little") for word in words[:4] + words[12:])
