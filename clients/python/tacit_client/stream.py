"""Follows the events of an account over a socket and resumes by seq after every disconnect."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from .encoding import count_of, member, parse_json
from .errors import EventsMissing, MalformedAnswer, VenueProblem
from .venue import Venue

_HEARTBEAT_S = 5
_HEARTBEAT_MS_MAX = 60_000
_SILENCE_S = 1
_LOOK_S = 0.25
"""Longest time until the end of the stream is noticed."""
_RETRY_FIRST_S, _RETRY_MAX_S = 0.2, 5.0
_FRAME_BYTES_MAX = 64 * 2**20
LOGIN_REFUSED = {"credentials_invalid", "credential_expired", "read_only"}
"""Refusals of a login that no later attempt changes."""


def _opened(venue: Venue, path: str, token: str) -> ClientConnection:
    """On a connection made here: a redirect, which leads to another address than the verified one, is a MalformedAnswer."""
    plain = socket.create_connection((venue.host, venue.port), venue.timeout_s)
    try:
        return connect(
            f"wss://{venue.host}:{venue.port}{path}",
            sock=plain,
            ssl=venue.context,
            additional_headers={**venue.judged, "authorization": f"Bearer {token}"},
            max_size=_FRAME_BYTES_MAX,
            open_timeout=venue.timeout_s,
            proxy=None,
        )
    except BaseException as error:
        plain.close()
        if isinstance(error, ValueError):
            raise MalformedAnswer("the socket leads elsewhere") from error
        raise


def follow_events(venue: Venue, after: int, ended: threading.Event | None = None) -> Iterator[dict[str, Any]]:
    """
    Yields the account's events behind seq `after`, each once and in order: {seq, kind, slot, unix_ms, data}. The position
    moves when the next one is asked for. A socket without two heartbeats, or with a malformed frame, is opened again;
    `ended` ends the stream. Raises EventsMissing when the venue no longer sends some, VenueProblem when the login is refused for good,
    BindingRefused when the next leading node is none that was judged.
    """
    ended = ended or threading.Event()
    wait_s = _RETRY_FIRST_S
    while not ended.is_set():
        token = None
        try:
            token = venue.token()
            with _opened(venue, f"/ws/trading?after={after}", token) as stream:
                heartbeat_s: float = _HEARTBEAT_S
                opened = heard = time.monotonic()
                while not ended.is_set():
                    # A socket that closes at once is no progress: the wait before the next one grows.
                    if time.monotonic() - opened > _RETRY_MAX_S:
                        wait_s = _RETRY_FIRST_S
                    try:
                        text = stream.recv(timeout=_LOOK_S)
                    except TimeoutError:
                        if time.monotonic() - heard > 2 * heartbeat_s + _SILENCE_S:
                            break
                        continue
                    heard = time.monotonic()
                    frame = parse_json(text)
                    kind = member(frame, "type", str)
                    if kind == "hello":
                        heartbeat_s = count_of(frame, "heartbeat_ms", _HEARTBEAT_MS_MAX) / 1000
                    elif kind == "gap" and count_of(frame, "seq_to") > after:
                        raise EventsMissing(f"the venue does not send the events {after + 1} to {frame['seq_to']}")
                    elif kind == "event" and count_of(frame, "seq") > after:
                        if frame["seq"] != after + 1:
                            raise EventsMissing(f"the venue left out the events {after + 1} to {frame['seq'] - 1}")
                        member(frame, "kind", str), member(frame, "data", dict)
                        count_of(frame, "slot"), count_of(frame, "unix_ms")
                        yield {name: value for name, value in frame.items() if name != "type"}
                        after += 1
                        wait_s = _RETRY_FIRST_S
        except InvalidStatus as error:
            if error.response.status_code == 401 and token is not None:
                venue.forget(token)
            elif error.response.status_code == 503:
                venue.moved()
        except VenueProblem as problem:
            if problem.code in LOGIN_REFUSED:
                raise
        except (OSError, WebSocketException, MalformedAnswer):
            pass
        ended.wait(wait_s)
        wait_s = min(2 * wait_s, _RETRY_MAX_S)
