"""Trades on a Tacit venue: signed bodies, notes, receipts, calls and streams."""

from .bodies import LAYOUTS, account_id_of, anchor_pool_hash, command_bytes, encode_body, venue_id
from .errors import MustStop, ReceiptRefused, TacitError, VenueProblem
from .receipts import VenueIdentity, identity_of, verify_receipt

__all__ = [
    "LAYOUTS",
    "MustStop",
    "ReceiptRefused",
    "TacitError",
    "VenueIdentity",
    "VenueProblem",
    "account_id_of",
    "anchor_pool_hash",
    "command_bytes",
    "encode_body",
    "identity_of",
    "venue_id",
    "verify_receipt",
]
