"""Operations and frames of the AMQP 1.0 draft, written down octet by octet from the document.

An operation stands for a frame body: the struct's size (4 octets), its code (2), its packing flags (2) and
its fields (sections 2.3, 6.12.5 and 7.2). Each is there with all its fields (``full``), and with those only
that it must have (``least``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amqpforge_protocol import amqp_1_0_draft

#: The package without its types, so that plain numbers and texts do where an enumeration is meant.
draft: Any = amqp_1_0_draft


def octets(text: str) -> bytes:
    """Octets in hexadecimal digits, with blanks anywhere, 'ASCII' in quotes, and comments behind ``#``."""
    found = b""
    for line in text.splitlines():
        for number, part in enumerate(line.partition("#")[0].split("'")):
            found += part.encode("ascii") if number % 2 else bytes.fromhex(part)
    return found


@dataclass(frozen=True)
class Vector:
    """One operation: the name of its class, the arguments that make it, and its octets."""

    kind: str
    octets: bytes
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {'full' if self.is_full else 'least'}"

    @property
    def is_full(self) -> bool:
        return len(self.arguments) == len(getattr(draft, self.kind).FIELDS)

    @property
    def value(self) -> Any:
        return getattr(draft, self.kind)(**self.arguments)


OPTIONS = {"a": True}
"""The map that stands in all fields of the name; in the notation of ``octets`` it is, with its size and count
(section 6.12.2), then the key as a str8, the code of boolean and its octet::

    00000008 00000001 01 'a' 08 01
"""

CONNECTION = [
    Vector(  # section 3.9.1
        "ConnectionOpen",
        octets("""
            00000058 0101 ff03
            00000008 00000001 01 'a' 08 01           # options: map
            0001 'c'                                 # container-id: str16
            0001 'h'                                 # hostname: str16
            00001000                                 # max-frame-size: uint32
            00ff                                     # channel-max: uint16
            001e                                     # heartbeat-interval: uint16
            00000002 0005 'PLAIN' 0008 'EXTERNAL'    # sasl-server-mechanisms: two str16
            00000001 0002 'de'                       # outgoing-locales: one str16
            00000002 0002 'fr' 0002 'en'             # incoming-locales: two str16
            0000000d 00000001 07 'product' f0        # peer-properties: map with a void
        """),
        {
            "options": OPTIONS,
            "container_id": "c",
            "hostname": "h",
            "max_frame_size": 4096,
            "channel_max": 255,
            "heartbeat_interval": 30,
            "sasl_server_mechanisms": ["PLAIN", "EXTERNAL"],
            "outgoing_locales": ["de"],
            "incoming_locales": ["fr", "en"],
            "peer_properties": {"product": None},
        },
    ),
    Vector(
        "ConnectionOpen",
        octets("00000009 0101 1200  0001 'c'  0000"),
        {"container_id": "c", "channel_max": 0},
    ),
    Vector(  # section 3.9.2
        "ConnectionSaslInit",
        octets("""
            0000001f 0102 0700
            00000008 00000001 01 'a' 08 01
            0005 'PLAIN'                             # mechanism: str16
            00000004 00 'u' 00 'p'                   # initial-response: vbin32
        """),
        {"options": OPTIONS, "mechanism": "PLAIN", "initial_response": b"\x00u\x00p"},
    ),
    Vector("ConnectionSaslInit", octets("0000000b 0102 0200  0005 'PLAIN'"), {"mechanism": "PLAIN"}),
    Vector(  # section 3.9.3
        "ConnectionSaslChallenge",
        octets("00000017 0103 0300  00000008 00000001 01 'a' 08 01  00000003 'who'"),
        {"options": OPTIONS, "challenge": b"who"},
    ),
    Vector("ConnectionSaslChallenge", octets("00000008 0103 0200  00000000"), {"challenge": b""}),
    Vector(  # section 3.9.4
        "ConnectionSaslResponse",
        octets("00000016 0104 0300  00000008 00000001 01 'a' 08 01  00000002 'me'"),
        {"options": OPTIONS, "response": b"me"},
    ),
    Vector("ConnectionSaslResponse", octets("00000008 0104 0200  00000000"), {"response": b""}),
    Vector(  # section 3.9.5; the code is a uint8
        "ConnectionSaslOutcome",
        octets("00000017 0105 0700  00000008 00000001 01 'a' 08 01  00  00000002 'ok'"),
        {"options": OPTIONS, "code": 0, "additional_data": b"ok"},
    ),
    Vector("ConnectionSaslOutcome", octets("00000004 0105 0000")),
    Vector(  # section 3.9.7; the close-code is a uint16
        "ConnectionClose",
        octets("00000017 0106 0700  00000008 00000001 01 'a' 08 01  00c8  0003 'bye'"),
        {"options": OPTIONS, "close_code": 200, "close_text": "bye"},
    ),
    Vector("ConnectionClose", octets("00000006 0106 0200  01f5"), {"close_code": 501}),
]

SESSION = [
    Vector(  # section 4.12.1; opening is a bit: its flag is all there is of it
        "SessionAttach",
        octets("""
            00000029 0201 ff03
            00000008 00000001 01 'a' 08 01
            0001 's'                                 # name: vbin16
            00000001                                 # next-command: sequence-no
            00000000                                 # acknowledged: sequence-no
            ffffffff                                 # received: sequence-no
            00000064                                 # capacity: uint32
            0000003c                                 # timeout: uint32
            01                                       # txn-mode: uint8
            02                                       # txn-support: uint8
        """),
        {
            "options": OPTIONS,
            "name": b"s",
            "opening": True,
            "next_command": 1,
            "acknowledged": 0,
            "received": 0xFFFFFFFF,
            "capacity": 100,
            "timeout": 60,
            "txn_mode": 1,
            "txn_support": 2,
        },
    ),
    Vector("SessionAttach", octets("00000007 0201 0200  0001 's'"), {"name": b"s"}),
    Vector(  # section 4.12.2; the exception has no code: its flags and fields stand in the field as they are
        "SessionDetach",
        octets("""
            00000036 0202 3f00
            00000008 00000001 01 'a' 08 01
            0001 's'                                 # name: vbin16
            00000007                                 # acknowledged: sequence-no
            00000008                                 # executed: sequence-no
            3f00                                     # exception: flags
            138b                                     # error-code: uint16
            00000009                                 # command-id: sequence-no
            03                                       # command-code: uint8
            01                                       # field-index: uint8
            0003 'bad'                               # description: str16
            00000008 00000001 01 'a' 08 01           # error-info: map
        """),
        {
            "options": OPTIONS,
            "name": b"s",
            "closing": True,
            "acknowledged": 7,
            "executed": 8,
            "exception": draft.AmqpException(
                error_code=5003,
                command_id=9,
                command_code=3,
                field_index=1,
                description="bad",
                error_info=OPTIONS,
            ),
        },
    ),
    Vector("SessionDetach", octets("00000007 0202 0200  0001 's'"), {"name": b"s"}),
    Vector(  # section 4.12.5
        "SessionNoop",
        octets("00000010 0203 0100  00000008 00000001 01 'a' 08 01"),
        {"options": OPTIONS},
    ),
    Vector("SessionNoop", octets("00000004 0203 0000")),
    Vector(  # section 4.12.6
        "SessionExecute",
        octets("""
            00000024 0204 0f00
            00000008 00000001 01 'a' 08 01
            05 'urn:x'                               # spec: str8
            02 'go'                                  # name: str8
            00000007 00000001 01 'n' f0              # arguments: map with a void
        """),
        {"options": OPTIONS, "spec": "urn:x", "name": "go", "arguments": {"n": None}},
    ),
    Vector("SessionExecute", octets("00000004 0204 0000")),
    Vector(  # section 4.13.2; join and resume are bits
        "SessionEnlist",
        octets("""
            00000019 0205 0f00
            00000008 00000001 01 'a' 08 01
            00000001 02 'gg' 01 'b'                  # xid, a record: uint32 and two vbin8, no flags
        """),
        {
            "options": OPTIONS,
            "xid": draft.Xid(format=1, global_id=b"gg", branch_id=b"b"),
            "join": True,
            "resume": True,
        },
    ),
    Vector(
        "SessionEnlist",
        octets("0000000a 0205 0200  00000000 00 00"),
        {"xid": draft.Xid(format=0, global_id=b"", branch_id=b"")},
    ),
]

LINK = [
    Vector(  # section 5.12.1; durable and create are bits
        "LinkLink",
        octets("""
            00000031 0301 ff07
            00000008 00000001 01 'a' 08 01
            0001 'l'                                 # name: str16
            00000005                                 # handle: uint32
            0004 'from'                              # local: vbin16
            0002 'to'                                # remote: vbin16
            01                                       # direction: uint8
            00000002                                 # distribution-mode: uint32
            00000001 'f'                             # filter: vbin32
            05 'XPATH'                               # filter-type: str8
        """),
        {
            "options": OPTIONS,
            "name": "l",
            "durable": True,
            "handle": 5,
            "create": True,
            "local": b"from",
            "remote": b"to",
            "direction": 1,
            "distribution_mode": 2,
            "filter": b"f",
            "filter_type": "XPATH",
        },
    ),
    Vector("LinkLink", octets("0000000b 0301 0a00  0001 'l'  00000000"), {"name": "l", "handle": 0}),
    Vector(  # section 5.12.2
        "LinkRelink",
        octets("""
            0000001f 0302 0f00
            00000008 00000001 01 'a' 08 01
            00000005                                 # handle: uint32
            00000001 'f'                             # filter: vbin32
            05 'XPATH'                               # filter-type: str8
        """),
        {"options": OPTIONS, "handle": 5, "filter": b"f", "filter_type": "XPATH"},
    ),
    Vector("LinkRelink", octets("00000004 0302 0000")),
    Vector(  # section 5.12.3
        "LinkUnlink",
        octets("00000014 0303 0300  00000008 00000001 01 'a' 08 01  00000005"),
        {"options": OPTIONS, "handle": 5},
    ),
    Vector("LinkUnlink", octets("00000004 0303 0000")),
    Vector(  # section 5.12.8; the limit is a sequence-no
        "LinkFlow",
        octets("00000018 0304 0700  00000008 00000001 01 'a' 08 01  00000005  0000000a"),
        {"options": OPTIONS, "handle": 5, "limit": 10},
    ),
    Vector("LinkFlow", octets("00000008 0304 0200  00000005"), {"handle": 5}),
    Vector(  # section 5.12.9
        "LinkDrain",
        octets("00000014 0305 0300  00000008 00000001 01 'a' 08 01  00000005"),
        {"options": OPTIONS, "handle": 5},
    ),
    Vector("LinkDrain", octets("00000008 0305 0200  00000005"), {"handle": 5}),
    Vector(  # section 5.14.1; more, aborted and redelivered are bits, and so is durable of the header
        "LinkTransfer",
        octets("""
            0000003e 0306 ff07
            00000008 00000001 01 'a' 08 01
            00000005                                 # handle: uint32
            0000000000000008                         # fragment-offset: uint64
            ffffffffffffffff                         # transmit-time: timestamp, a millisecond before 1970
            00000000000003e8                         # ttl: uint64
            0700 04 00000000                         # header: flags, priority: uint8, format-code: uint32
            00000005 'hello'                         # payload: vbin32
            0000                                     # footer: flags, and no fields
        """),
        {
            "options": OPTIONS,
            "handle": 5,
            "more": True,
            "aborted": True,
            "redelivered": True,
            "fragment_offset": 8,
            "transmit_time": draft.Timestamp(-1),
            "ttl": 1000,
            "header": draft.Header(durable=True, priority=4, format_code=0),
            "payload": b"hello",
            "footer": draft.Footer(),
        },
    ),
    Vector("LinkTransfer", octets("00000008 0306 0200  00000005"), {"handle": 5}),
    Vector(  # section 5.14.4; first and last are sequence-no
        "LinkReject",
        octets("""
            00000025 0309 0f00
            00000008 00000001 01 'a' 08 01
            00000003 00000005
            00000009 00000001 03 'why' f0            # reject-properties: map with a void
        """),
        {"options": OPTIONS, "first": 3, "last": 5, "reject_properties": {"why": None}},
    ),
    Vector("LinkReject", octets("00000008 0309 0200  00000003"), {"first": 3}),
    Vector(  # section 5.14.5; mark-redelivered is a bit
        "LinkRelease",
        octets("00000018 030a 0f00  00000008 00000001 01 'a' 08 01  00000003 00000005"),
        {"options": OPTIONS, "first": 3, "last": 5, "mark_redelivered": True},
    ),
    Vector("LinkRelease", octets("00000008 030a 0200  00000003"), {"first": 3}),
    Vector(  # section 5.14.6
        "LinkPark",
        octets("00000018 030b 0700  00000008 00000001 01 'a' 08 01  00000003 00000005"),
        {"options": OPTIONS, "first": 3, "last": 5},
    ),
    Vector("LinkPark", octets("00000008 030b 0200  00000003"), {"first": 3}),
    Vector(  # section 5.14.7; the mode is a uint8
        "LinkUnpark",
        octets("00000019 030c 0f00  00000008 00000001 01 'a' 08 01  03  00000003 00000005"),
        {"options": OPTIONS, "mode": 3, "first": 3, "last": 5},
    ),
    Vector("LinkUnpark", octets("00000009 030c 0600  00  00000003"), {"mode": 0, "first": 3}),
]

VECTORS = {str(vector): vector for vector in [*CONNECTION, *SESSION, *LINK]}


@dataclass(frozen=True)
class FrameVector:
    """A frame: its octets, the name of the operation in it, and what else ``encode_frame`` is told."""

    name: str
    octets: bytes
    operation: str | None = None
    arguments: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def value(self) -> Any:
        """The operation."""
        return VECTORS[self.operation].value if self.operation is not None else None

    @property
    def expected(self) -> Any:
        """The frame as it is decoded."""
        rest = {"channel": 0, **self.arguments}
        kind = draft.FrameType(rest.pop("kind", self.octets[4]))
        return draft.Frame(kind, rest.pop("channel"), self.value, **rest)


# Size, type, flags, channel; acknowledged, executed, capacity, command-id (section 2.2); body (section 2.3).
FRAMES = [
    FrameVector(
        "a control on channel 0",
        octets("""
            00000025 00 00 0000
            00000000 00000000 00000000 00000000
            00000009 0101 1200  0001 'c'  0000
        """),
        "ConnectionOpen least",
    ),
    FrameVector(
        "a control of a session",
        octets("""
            00000023 00 00 0102
            00000000 00000000 00000000 00000000
            00000007 0201 0200  0001 's'
        """),
        "SessionAttach least",
        {"channel": 0x0102},
    ),
    FrameVector(  # section 2.4
        "a heartbeat",
        octets("00000018 00 00 0000  00000000 00000000 00000000 00000000"),
    ),
    FrameVector(
        "a command",
        octets("""
            00000024 01 00 ffff
            01020304 05060708 090a0b0c 0d0e0f10
            00000008 0306 0200  00000005
        """),
        "LinkTransfer least",
        {
            "channel": 0xFFFF,
            "acknowledged": 0x01020304,
            "executed": 0x05060708,
            "capacity": 0x090A0B0C,
            "command_id": 0x0D0E0F10,
        },
    ),
    FrameVector(
        "a command with flush",
        octets("""
            00000020 01 01 0007
            00000000 00000000 00000000 00000001
            00000004 0203 0000
        """),
        "SessionNoop least",
        {"channel": 7, "flags": 1, "command_id": 1},
    ),
    FrameVector(
        "a command with sync",
        octets("""
            00000020 01 02 0007
            00000000 00000000 00000000 00000002
            00000004 0203 0000
        """),
        "SessionNoop least",
        {"channel": 7, "flags": 2, "command_id": 2},
    ),
    FrameVector(
        "a command with both flags",
        octets("""
            00000024 01 03 0007
            00000000 00000000 00000000 00000003
            00000008 0304 0200  00000005
        """),
        "LinkFlow least",
        {"channel": 7, "flags": 3, "command_id": 3},
    ),
    FrameVector(  # section 2.4
        "session state",
        octets("00000018 01 02 0007  00000003 ffffffff 00000000 00000004"),
        None,
        {
            "kind": 1,
            "channel": 7,
            "flags": 2,
            "acknowledged": 3,
            "executed": 0xFFFFFFFF,
            "command_id": 4,
        },
    ),
]
