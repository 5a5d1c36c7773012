"""Defines every error of the package. None contains a secret or a value that was sent."""

from typing import Any


class TacitError(Exception):
    """Base of all errors of this package."""


class MalformedAnswer(TacitError, ValueError):
    """An answer has not the documented form: it does not show the outcome of a command."""


class VenueProblem(TacitError):
    """The venue refused a call, with a stable code. `applied` is "no", "yes" (an identical resend) or "unknown"."""

    def __init__(self, problem: dict[str, Any]):
        self.problem = problem
        self.status: int = problem["status"]
        self.code: str = problem["code"]
        self.applied: str = problem.get("applied", "unknown")
        retry = problem.get("retry_after_ms")
        self.retry_after_s: float = retry / 1000 if type(retry) is int and retry > 0 else 0.0
        super().__init__(f"{self.code}: {problem.get('message', '')}")


class OutcomeUnknown(TacitError):
    """No answer decided a command: it stays in the wallet's file, and `Session.settle` sends the same bytes again."""

    def __init__(self, command_id: str):
        self.command_id = command_id
        super().__init__("the outcome of the command is not known: settle it before anything else")


class MustStop(TacitError):
    """A reason to stop trading that no repetition repairs."""


class PinMismatch(MustStop):
    """The TLS key of the connection is not the pinned one. Nothing was sent."""


class BindingRefused(MustStop):
    """The venue's signed statement about its keys does not hold; the message names the first check that failed."""


class WrongAccount(MustStop):
    """The venue logs this credential in to another account than the login names."""


class ReceiptRefused(MustStop):
    """The receipt does not prove the command; the message names the reason."""


class StatisticsRefused(TacitError):
    """The rows are not those of a venue that never rewrote one; the message names the first fault."""


class WalletMismatch(MustStop):
    """An event contradicts the wallet's derivation from its seed."""


class WalletOfOtherVault(MustStop):
    """The wallet was used with another vault, and stays with it."""


class WalletOutdated(MustStop):
    """The venue was restored from the chain after the wallet's last event: `tacit wallet sync` takes its notes over."""


class EventsMissing(MustStop):
    """The venue no longer sends some events: read the state over REST."""


class WalletInUse(TacitError):
    """Another program uses the wallet's file: wait for it to end."""


class InexactValue(TacitError, ValueError):
    """A decimal has no exact value in the units asked for, or is off lot or tick."""


class NoNote(TacitError):
    """No free note covers the amount: deposit, or merge notes."""

    def __init__(self, mint: str, needed: int):
        self.mint, self.needed = mint, needed
        super().__init__("no free note covers the amount")
