"""Trades on a Tacit venue: signed bodies, notes, receipts, calls and streams."""

from .bodies import LAYOUTS, account_id_of, anchor_pool_hash, command_bytes, encode_body, venue_id
from .errors import (
    BindingRefused,
    EventsMissing,
    InexactValue,
    MalformedAnswer,
    MustStop,
    NoNote,
    OutcomeUnknown,
    PinMismatch,
    ReceiptRefused,
    StatisticsRefused,
    TacitError,
    VenueProblem,
    WalletInUse,
    WalletMismatch,
    WalletOfOtherVault,
    WalletOutdated,
    WrongAccount,
)
from .receipts import VenueIdentity, identity_of, verify_receipt
from .session import Session
from .statistics import verify_statistics
from .stream import follow_events
from .units import format_amount, parse_amount
from .venue import Venue
from .wallet import Wallet

__all__ = [
    "LAYOUTS",
    "BindingRefused",
    "EventsMissing",
    "InexactValue",
    "MalformedAnswer",
    "MustStop",
    "NoNote",
    "OutcomeUnknown",
    "PinMismatch",
    "ReceiptRefused",
    "Session",
    "StatisticsRefused",
    "TacitError",
    "Venue",
    "VenueIdentity",
    "VenueProblem",
    "Wallet",
    "WalletInUse",
    "WalletMismatch",
    "WalletOfOtherVault",
    "WalletOutdated",
    "WrongAccount",
    "account_id_of",
    "anchor_pool_hash",
    "command_bytes",
    "encode_body",
    "follow_events",
    "format_amount",
    "identity_of",
    "parse_amount",
    "venue_id",
    "verify_receipt",
    "verify_statistics",
]
