"""Encodes bytes as the wire does: base58, lowercase hex and decimal 64-bit integers; reads exactly one spelling of each."""

import hashlib
import re

U64_MAX = 2**64 - 1
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE_OF = {letter: value for value, letter in enumerate(_ALPHABET)}


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the parts in a row."""
    return hashlib.sha256(b"".join(parts)).digest()


def u64_le(value: int) -> bytes:
    """8 bytes, little-endian. Raises ValueError outside 64 bits."""
    if not 0 <= value <= U64_MAX:
        raise ValueError("expected an unsigned integer of 64 bits")
    return value.to_bytes(8, "little")


def from_hex(text: str, width: int) -> bytes:
    """Bytes of lowercase hex. Raises ValueError for another width or spelling."""
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{2 * width}}}", text):
        raise ValueError(f"expected {2 * width} lowercase hex digits")
    return bytes.fromhex(text)


def to_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def from_base58(text: str, width: int = 32) -> bytes:
    """Bytes of a key or address. Raises ValueError for another width or spelling."""
    number = 0
    # The longest text is bounded, since the work grows with its square.
    if not isinstance(text, str) or len(text) > 2 * width or any(letter not in _VALUE_OF for letter in text):
        raise ValueError(f"expected base58 of {width} bytes")
    for letter in text:
        number = number * 58 + _VALUE_OF[letter]
    if number < 256**width:
        data = number.to_bytes(width, "big")
        if to_base58(data) == text:
            return data
    raise ValueError(f"expected base58 of {width} bytes")


def u64_of(text: str) -> int:
    """The value of a canonical decimal string. Raises ValueError for a sign, leading zero, exponent or overflow."""
    if not isinstance(text, str) or not re.fullmatch("0|[1-9][0-9]{0,19}", text, re.ASCII) or int(text) > U64_MAX:
        raise ValueError("expected a decimal string of at most 64 bits")
    return int(text)
