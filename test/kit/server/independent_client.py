"""Uses a venue with the standard library alone: logs in, reads, revokes, watches sockets end. Prints one JSON object.

Reads one JSON object from standard input: host, port, ca (PEM file), and what each step below names.
"""
import base64
import http.client
import json
import os
import socket
import ssl
import struct
import sys
import time

given = json.load(sys.stdin)
context = ssl.create_default_context(cafile=given["ca"])


def ask(method, path, token=None, body=None):
    connection = http.client.HTTPSConnection(given["host"], given["port"], context=context, timeout=30)
    headers = {} if token is None else {"Authorization": "Bearer " + token}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    return answer.status, value


def code_of(answer):
    return [answer[0], answer[1].get("code")]


def log_in(login):
    status, value = ask("POST", "/auth/token", body=login)
    return value["access_token"] if status == 200 else None


def connect():
    plain = socket.create_connection((given["host"], given["port"]), timeout=30)
    return context.wrap_socket(plain, server_hostname=given["host"])


class WebSocket:
    def __init__(self, path, token):
        self.socket = connect()
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            (
                f"GET {path} HTTP/1.1\r\nHost: {given['host']}:{given['port']}\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
                f"Authorization: Bearer {token}\r\n\r\n"
            ).encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.exactly(1)
        self.status = int(head.split(b" ")[1])

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise EOFError("closed")
            data += more
        return data

    def frame(self):
        first, second = self.exactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self.exactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.exactly(8))
        return first & 0x0F, self.exactly(length)

    def send(self, value):
        payload = json.dumps(value).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.socket.sendall(bytes([0x81, 0x80 | 126]) + struct.pack(">H", len(payload)) + mask + masked)

    def close_code(self):
        """Reads on until the close frame."""
        while True:
            kind, payload = self.frame()
            if kind == 8:
                return struct.unpack(">H", payload[:2])[0]


def timed_close(opened, end):
    """The close code, and the seconds from the answer's start to it."""
    opened.frame()
    began = time.monotonic()
    answer = end()
    code = opened.close_code()
    return [answer, code, time.monotonic() - began]


def slow_body(login):
    """A request whose body is completed only after its token was revoked."""
    token = log_in(login)
    body = json.dumps(given["order"]).encode()
    waiting = connect()
    waiting.sendall(
        (
            f"POST /orders HTTP/1.1\r\nHost: {given['host']}:{given['port']}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nAuthorization: Bearer {token}\r\n\r\n"
        ).encode()
        + body[:20]
    )
    time.sleep(0.3)
    ask("POST", "/auth/token/revoke", token)
    waiting.sendall(body[20:])
    answer = b""
    while True:
        more = waiting.recv(65536)
        if not more:
            break
        answer += more
    head, _, text = answer.partition(b"\r\n\r\n")
    return [int(head.split(b" ")[1]), json.loads(text[text.index(b"{") : text.rindex(b"}") + 1])["code"]]


def expire(login):
    """Until the credential's end: the token's life, then the answers to token, socket and login."""
    status, value = ask("POST", "/auth/token", body=login)
    began = time.monotonic()
    opened = WebSocket("/ws/trading", value["access_token"])
    opened.frame()
    code = opened.close_code()
    lived = time.monotonic() - began
    after = code_of(ask("GET", "/orders", value["access_token"]))
    while ask("GET", "/time")[1]["unix_ms"] < given["expiry_s"] * 1000:
        time.sleep(0.1)
    return [status, value["expires_in"], code, lived, after, code_of(ask("POST", "/auth/token", body=login))]


login, revoked, expiring = given["login"], given["revoked"], given["expiring"]
result = {"expiry": expire(expiring)}
result["wrong"] = [
    code_of(ask("POST", "/auth/token", body={**login, **change}))
    for change in ({"api_key": "0" * 32}, {"api_secret": "0" * 64}, {"passphrase": "wrong"})
]
status, answer = ask("POST", "/auth/token", body=login)
result["login"] = [status, answer["token_type"], answer["account_id"]]
token = answer["access_token"]
result["read"] = [ask("GET", "/orders", token)[0], code_of(ask("GET", "/orders"))]

mine = log_in(login)
result["token_revoked"] = timed_close(
    WebSocket("/ws/orders", mine), lambda: ask("POST", "/auth/token/revoke", mine)[0]
) + [code_of(ask("GET", "/orders", mine))]

theirs = log_in(revoked)
sockets = [WebSocket(path, theirs) for path in ("/ws/fills", "/ws/trading")]
result["credential_revoked"] = timed_close(
    sockets[0], lambda: ask("POST", "/account/credentials", token, given["revocation"])[0]
) + [sockets[1].close_code(), code_of(ask("GET", "/orders", theirs)), code_of(ask("POST", "/auth/token", body=revoked))]
result["slow_body"] = slow_body(login)
result["others"] = ask("GET", "/account", token)[0]
print(json.dumps(result))
