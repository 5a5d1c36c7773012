"""Hashes with Poseidon over BN254 and circom's parameters, which are generated here as the Poseidon paper describes."""

from collections.abc import Iterator
from functools import cache

FIELD_MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617
"""The order of BN254's scalar field."""
_FULL_ROUNDS = 8
_PARTIAL_ROUNDS = {2: 56, 3: 57, 4: 56, 5: 60, 6: 60}
_FIELD_BITS = 254


def _grain(width: int) -> Iterator[int]:
    """Bits of the self-shrinking Grain LFSR, seeded by the parameters (Poseidon paper, appendix E)."""
    seed = ((1, 2), (0, 4), (_FIELD_BITS, 12), (width, 12), (_FULL_ROUNDS, 10), (_PARTIAL_ROUNDS[width], 10))
    state = 0
    for value, bits in seed:
        state = (state << bits) | value
    state = (state << 30) | (2**30 - 1)

    def step() -> int:
        nonlocal state
        # Bit 79 is the oldest; taps at 62, 51, 38, 23, 13 and 0 places after it.
        bit = (state >> 17 ^ state >> 28 ^ state >> 41 ^ state >> 56 ^ state >> 66 ^ state >> 79) & 1
        state = (state << 1 | bit) & (2**80 - 1)
        return bit

    for _ in range(160):
        step()
    while True:
        if step():
            yield step()
        else:
            step()


@cache
def _parameters(width: int) -> tuple[list[list[int]], list[list[int]]]:
    """Round constants by round, and the matrix that mixes the state."""
    bits = _grain(width)

    def number() -> int:
        value = 0
        for _ in range(_FIELD_BITS):
            value = value << 1 | next(bits)
        return value

    def element() -> int:
        while (value := number()) >= FIELD_MODULUS:
            pass
        return value

    rounds = _FULL_ROUNDS + _PARTIAL_ROUNDS[width]
    constants = [[element() for _ in range(width)] for _ in range(rounds)]
    # The reference takes these without rejection. For these widths the first draw has no equal and no opposite values.
    points = [number() % FIELD_MODULUS for _ in range(2 * width)]
    rows, columns = points[:width], points[width:]
    return constants, [[pow(x + y, -1, FIELD_MODULUS) for y in columns] for x in rows]


def poseidon(*inputs: int | bytes) -> bytes:
    """
    32 big-endian bytes. 1 to 5 inputs: integers or big-endian bytes, each below the field's order.
    Raises ValueError for another count or an input outside the field.
    """
    elements = [int.from_bytes(one, "big") if isinstance(one, bytes) else one for one in inputs]
    width = len(elements) + 1
    if width not in _PARTIAL_ROUNDS or not all(0 <= one < FIELD_MODULUS for one in elements):
        raise ValueError("poseidon takes 1 to 5 elements of the field")
    constants, matrix = _parameters(width)
    state = [0, *elements]
    first_partial, end_partial = _FULL_ROUNDS // 2, len(constants) - _FULL_ROUNDS // 2
    for at, added in enumerate(constants):
        state = [(value + constant) % FIELD_MODULUS for value, constant in zip(state, added)]
        powered = 1 if first_partial <= at < end_partial else width
        state[:powered] = [pow(value, 5, FIELD_MODULUS) for value in state[:powered]]
        state = [sum(a * b for a, b in zip(row, state)) % FIELD_MODULUS for row in matrix]
    return state[0].to_bytes(32, "big")
