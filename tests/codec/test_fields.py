"""The fields of composites: what each refuses, by name, on the way out and on the way in; and what maps in
them may hold.
"""

from __future__ import annotations

from typing import Any

import pytest

from amqpforge_protocol.amqp_1_0 import (
    Array,
    Char,
    DecodeError,
    Described,
    EncodeError,
    FieldInfo,
    Limits,
    Map,
    Symbol,
    ULong,
    can_read_format,
    decode_performative,
    decode_value,
    encode_value,
    join_message_format,
    split_message_format,
)
from tests.codec.objects import amqp
from tests.codec.sameness import same
from tests.codec.strategies import CHOICES, PROVIDERS, is_free
from tests.codec.vectors import classes

STRICT = Limits(strict=True)

SAMPLES: dict[str, Any] = {
    "boolean": True,
    **dict.fromkeys(("ubyte", "ushort", "uint", "ulong"), 1),
    "string": "s",
    "symbol": Symbol("s"),
    "binary": b"b",
    "map": {},
    "timestamp": amqp.Timestamp(1),
}
WRONG: dict[str, list[Any]] = {
    "boolean": ["yes", 2],
    "ubyte": [-1, 256, "1", 1.5],
    "ushort": [-1, 65536, "1"],
    "uint": [-1, 1 << 32, "1", 1.5],
    "ulong": [-1, 1 << 64, "1", 1.5],
    "timestamp": ["now", 1 << 63, -(1 << 63) - 1],
    "string": [b"s", 1, "\ud800"],
    "symbol": [b"s", 1, "é"],
    "binary": ["b", 1],
    "map": [[], "m", 1],
    "*": [1.5, [], {}],
    "list": [1, "s", []],
}
FIELDS = [
    pytest.param(kind, info, id=f"{name}.{info.name}")
    for name, kind in sorted(classes().items())
    for info in kind.FIELDS
]
MULTIPLE = [one for one in FIELDS if getattr(one.values[1], "multiple", False)]
COMPOSITES = [pytest.param(kind, id=name) for name, kind in sorted(classes().items()) if kind.FIELDS]


def sample(info: FieldInfo) -> Any:
    """A lawful value for a field."""
    one: Any
    if info.type in CHOICES:
        one = CHOICES[info.type][0]
    elif info.name == "outcomes":
        one = Symbol("amqp:accepted:list")
    elif info.type in classes():
        one = minimal(classes()[info.type])
    elif info.primitive == "*":
        providers = [] if holds_anything(info) else list(PROVIDERS[str(info.requires)].encoders)
        described = [kind for kind in providers if hasattr(kind, "XML_NAME")]
        plain = Described(Symbol("example:x"), None)
        one = minimal(described[0]) if described else b"b" if bytes in providers else plain
        one = "a" if str in providers else one
    else:
        one = SAMPLES[info.primitive]
    return [one] if info.multiple else one


def holds_anything(info: FieldInfo) -> bool:
    """Whether a field may hold anything: its archetype is left to extensions altogether."""
    return info.primitive == "*" and is_free(str(info.requires))


def minimal(kind: Any) -> Any:
    """An object that holds no more than it has to."""
    return kind(**{info.attribute: sample(info) for info in kind.FIELDS if info.mandatory})


# ---- encoding ----


@pytest.mark.parametrize(("kind", "info"), FIELDS)
def test_a_wrong_value_is_an_error_that_names_type_and_field(kind: Any, info: FieldInfo) -> None:
    lawful = {one.attribute: sample(one) for one in kind.FIELDS}
    assert same(decode_value(kind(**lawful).encode())[0], kind(**lawful))
    wrong = [object(), *([] if holds_anything(info) else WRONG[info.primitive])]
    if info.mandatory:
        wrong.append(None)
    if info.multiple:
        wrong = [*([one] for one in wrong), "text", b"octets", 1, object()]
    for value in wrong:
        with pytest.raises(EncodeError) as caught:
            kind(**{**lawful, info.attribute: value}).encode()
        assert (caught.value.type, caught.value.field) == (kind.XML_NAME, info.name), value
        assert caught.value.offset is None
        assert str(caught.value) == f"{kind.XML_NAME}.{info.name}: {caught.value.reason}"


@pytest.mark.parametrize(("kind", "info"), FIELDS)
def test_an_enumeration_refuses_what_it_does_not_know(kind: Any, info: FieldInfo) -> None:
    if info.type not in CHOICES:
        return
    lawful = {one.attribute: sample(one) for one in kind.FIELDS}
    unknown: Any = Symbol("x-unknown") if info.primitive == "symbol" else 99
    with pytest.raises(EncodeError) as caught:
        kind(**{**lawful, info.attribute: unknown}).encode()
    assert (caught.value.type, caught.value.field) == (kind.XML_NAME, info.name)
    member = CHOICES[info.type][-1]
    by_value = kind(**{**lawful, info.attribute: member.value})
    by_member = kind(**{**lawful, info.attribute: member})
    assert same(decode_value(by_value.encode())[0], by_member)


@pytest.mark.parametrize(("kind", "info"), FIELDS)
def test_what_equals_its_default_is_not_written(kind: Any, info: FieldInfo) -> None:
    if info.mandatory:
        return
    bare = minimal(kind)
    default = getattr(bare, info.attribute)
    assert default == info.default
    assert kind(**{**_held(bare), info.attribute: default}).encode() == bare.encode()


def _held(value: Any) -> dict[str, Any]:
    return {info.attribute: getattr(value, info.attribute) for info in value.FIELDS}


@pytest.mark.parametrize("kind", COMPOSITES)
def test_trailing_nulls_are_dropped(kind: Any) -> None:
    octets = minimal(kind).encode()
    last = max((at for at, info in enumerate(kind.FIELDS, start=1) if info.mandatory), default=0)
    assert octets[:3] == bytes((0x00, 0x53, kind.DESCRIPTOR))
    assert (octets[3], octets[5] if last else 0) == (0xC0 if last else 0x45, last)
    assert last or len(octets) == 4


def test_the_form_of_the_list_follows_from_its_size() -> None:
    for size in range(245, 265):
        octets = amqp.Open(container_id="x" * size).encode()
        fields = size + (2 if size < 256 else 5)
        assert octets[3] == (0xC0 if fields + 1 < 256 else 0xD0)
        assert decode_value(octets)[0].container_id == "x" * size


# ---- decoding ----


def raw(kind: Any, replaced: dict[str, object], count: int | None = None) -> bytes:
    """A composite of arbitrary field values, encoded without its codec."""
    lawful = {info.name: sample(info) for info in kind.FIELDS}
    values: list[object] = []
    for info in kind.FIELDS[:count]:
        value = replaced.get(info.name, lawful[info.name])
        values.append(_wire(value, info) if info.name not in replaced else value)
    return encode_value(Described(ULong(kind.DESCRIPTOR), values))


_WIRE: dict[str, Any] = {
    "ubyte": amqp.UByte,
    "ushort": amqp.UShort,
    "uint": amqp.UInt,
    "ulong": ULong,
    "symbol": Symbol,
}


def _wire(value: Any, info: FieldInfo) -> Any:
    """A field's plain value as the free-standing value of its wire type."""
    if info.multiple:
        return Array([Symbol(one) for one in value], "symbol")
    value = getattr(value, "value", value) if info.type in CHOICES else value
    return _WIRE[info.primitive](value) if info.primitive in _WIRE else value


@pytest.mark.parametrize(("kind", "info"), FIELDS)
def test_a_value_of_another_type_is_an_error_that_names_type_and_field(kind: Any, info: FieldInfo) -> None:
    lawful = {one.attribute: sample(one) for one in kind.FIELDS}
    assert same(decode_value(raw(kind, {}))[0], kind(**lawful))
    wrong: list[object] = [Char("c"), amqp.Float(1.5), Array([amqp.UByte(1)], "ubyte")]
    if holds_anything(info):
        wrong = []
    if info.mandatory:
        wrong.append(None)
    for value in wrong:
        octets = raw(kind, {info.name: value})
        with pytest.raises(DecodeError) as caught:
            decode_value(octets)
        assert (caught.value.type, caught.value.field) == (kind.XML_NAME, info.name), value
        place = raw(kind, {}, kind.FIELDS.index(info))
        assert caught.value.offset is not None
        assert len(place) - 4 <= caught.value.offset < len(octets)


@pytest.mark.parametrize(("kind", "info"), FIELDS)
def test_an_absent_field_is_its_default_or_an_error(kind: Any, info: FieldInfo) -> None:
    octets = raw(kind, {}, kind.FIELDS.index(info))
    absent = kind.FIELDS[kind.FIELDS.index(info) :]
    mandatory = [one.name for one in absent if one.mandatory]
    if mandatory:
        with pytest.raises(DecodeError, match="is mandatory but absent") as caught:
            decode_value(octets)
        assert (caught.value.type, caught.value.field) == (kind.XML_NAME, mandatory[0])
        return
    value = decode_value(octets)[0]
    for one in absent:
        held = getattr(value, one.attribute)
        assert held == one.default
        assert type(held) is type(one.default)


@pytest.mark.parametrize("kind", COMPOSITES)
def test_more_fields_than_are_known_are_refused(kind: Any) -> None:
    values = [_wire(sample(info), info) for info in kind.FIELDS]
    lawful = Described(ULong(kind.DESCRIPTOR), values)
    decode_value(encode_value(lawful))
    for extra in (None, 1):
        with pytest.raises(DecodeError, match=f"at most {len(values)} are known") as caught:
            decode_value(encode_value(Described(ULong(kind.DESCRIPTOR), [*values, extra])))
        assert caught.value.type == kind.XML_NAME


@pytest.mark.parametrize("kind", COMPOSITES)
def test_descriptors_are_numbers_or_symbols(kind: Any) -> None:
    octets = minimal(kind).encode()
    behind = octets[3:]
    expected = decode_value(octets)[0]
    for descriptor in (
        b"\x80" + kind.DESCRIPTOR.to_bytes(8, "big"),
        encode_value(Symbol(kind.SYMBOL)),
        b"\xb3" + len(kind.SYMBOL).to_bytes(4, "big") + kind.SYMBOL.encode(),
    ):
        assert same(decode_value(b"\x00" + descriptor + behind)[0], expected)


@pytest.mark.parametrize(("kind", "info"), MULTIPLE)
def test_many_values_come_as_one_or_as_an_array(kind: Any, info: FieldInfo) -> None:
    known = Symbol("amqp:accepted:list") if info.name == "outcomes" else Symbol("s")
    other = Symbol("example:x")
    for value, expected in (
        (known, [known]),
        (Array([known], "symbol"), [known]),
        (Array([known, other], "symbol"), [known, other]),
        (Array([], "symbol"), []),
    ):
        assert getattr(decode_value(raw(kind, {info.name: value}))[0], info.attribute) == expected
    if not info.mandatory:
        assert getattr(decode_value(raw(kind, {info.name: None}))[0], info.attribute) is None
    for wrong in ("text", Array(["text"], "string"), Array([None], "null"), [known]):
        with pytest.raises(DecodeError) as caught:
            decode_value(raw(kind, {info.name: wrong}))
        assert (caught.value.type, caught.value.field) == (kind.XML_NAME, info.name)


# ---- maps in fields ----


@pytest.mark.spec("T-ERR-001")
@pytest.mark.parametrize(
    ("kind", "name"), [(amqp.Error, "info"), (amqp.Open, "properties"), (amqp.Attach, "properties")]
)
def test_keys_of_fields_are_symbols(kind: Any, name: str) -> None:
    free: dict[Symbol, Any] = {
        Symbol("a"): None,
        Symbol(""): [1],
        Symbol("b"): {"any": 1},
        Symbol("c"): amqp.Accepted(),
    }
    octets = raw(kind, {name: free})
    for limits in (Limits(), STRICT):
        assert same(getattr(decode_value(octets, limits=limits)[0], name), free)
    for unlawful in (None, 1, ULong(1), True, b"a", Char("a")):
        for limits in (Limits(), STRICT):
            with pytest.raises(DecodeError, match="not all of type symbol") as caught:
                decode_value(raw(kind, {name: Map([(unlawful, 1)])}), limits=limits)
            assert (caught.value.type, caught.value.field) == (kind.XML_NAME, name)
        if not isinstance(unlawful, str):
            value = minimal(kind)
            setattr(value, name, {unlawful: 1})
            with pytest.raises(EncodeError):
                value.encode()
    text = raw(kind, {name: {"text": 1}})
    with pytest.raises(DecodeError, match="not all of type symbol"):
        decode_value(text, limits=STRICT)
    assert getattr(decode_value(text)[0], name) == {"text": 1}
    value = minimal(kind)
    setattr(value, name, {"text": 1})
    assert same(getattr(decode_value(value.encode(), limits=STRICT)[0], name), {Symbol("text"): 1})


@pytest.mark.spec("M-OUTCOME-016")
def test_modified_reaches_no_annotations_under_numbers() -> None:
    with pytest.raises(EncodeError) as caught:
        amqp.Modified(message_annotations={ULong(1): 1}).encode()
    assert (caught.value.type, caught.value.field) == ("modified", "message-annotations")
    for limits in (Limits(), STRICT):
        with pytest.raises(DecodeError):
            decode_value(raw(amqp.Modified, {"message-annotations": {ULong(1): 1}}), limits=limits)
    value = amqp.Modified(message_annotations={Symbol("x-opt-a"): 1})
    assert same(decode_value(value.encode(), limits=STRICT)[0], value)


@pytest.mark.spec("M-FILTER-005")
def test_a_filter_set_holds_described_values_under_symbols() -> None:
    described = Described(Symbol("apache.org:selector-filter:string"), "a > 1")
    lawful: dict[Symbol, Any] = {Symbol("f"): described, Symbol("none"): None}
    assert same(decode_value(raw(amqp.Source, {"filter": lawful}), limits=STRICT)[0].filter, lawful)
    assert same(decode_value(amqp.Source(filter=lawful).encode())[0].filter, lawful)
    undescribed: list[Any] = ["a > 1", 1, [], {}, Symbol("s"), True]
    for value in undescribed:
        wrong: dict[Symbol, Any] = {Symbol("f"): described, Symbol("g"): value}
        with pytest.raises(EncodeError, match="described values only"):
            amqp.Source(filter=wrong).encode()
        with pytest.raises(DecodeError, match="described values only"):
            decode_value(raw(amqp.Source, {"filter": wrong}))
    for key in ("text", ULong(1), None):
        for limits in (Limits(), STRICT):
            with pytest.raises(DecodeError, match="not all of type symbol"):
                decode_value(raw(amqp.Source, {"filter": Map([(key, described)])}), limits=limits)


POLICIES = [
    amqp.DeleteOnClose(),
    amqp.DeleteOnNoLinks(),
    amqp.DeleteOnNoMessages(),
    amqp.DeleteOnNoLinksOrMessages(),
]


@pytest.mark.spec("M-LIFETIME-002")
@pytest.mark.parametrize(
    ("kind", "field"), [(amqp.Source, "dynamic_node_properties"), (amqp.Target, "dynamic_node_properties")]
)
def test_a_lifetime_policy_is_a_described_type_of_its_kind(kind: Any, field: str) -> None:
    key = Symbol("lifetime-policy")
    for policy in [*POLICIES, Described(Symbol("example:policy"), [])]:
        value = kind(**{field: {key: policy}})
        assert same(decode_value(value.encode(), limits=STRICT)[0], value)
    for wrong in (Symbol("delete-on-close"), Symbol(POLICIES[0].SYMBOL), amqp.Accepted(), None, 1, POLICIES):
        with pytest.raises(EncodeError, match="does not provide lifetime-policy"):
            kind(**{field: {key: wrong}}).encode()
        with pytest.raises(DecodeError, match="does not provide lifetime-policy") as caught:
            decode_value(raw(kind, {"dynamic-node-properties": {key: wrong}}))
        assert (caught.value.type, caught.value.field) == (kind.XML_NAME, "dynamic-node-properties")


@pytest.mark.spec("M-TERM-022")
def test_supported_distribution_modes_are_one_symbol_or_several() -> None:
    key = Symbol("supported-dist-modes")
    for modes in (
        Symbol("move"),
        Array([Symbol("move"), Symbol("copy")], "symbol"),
        Array([Symbol("copy")], "symbol"),
    ):
        value: Any = amqp.Source(dynamic_node_properties={key: modes})
        assert same(decode_value(value.encode(), limits=STRICT)[0], value)
    for wrong in ("move", Array([], "symbol"), Array(["move"], "string"), [Symbol("move")], None, 1):
        with pytest.raises(EncodeError):
            amqp.Source(dynamic_node_properties={key: wrong}).encode()
        with pytest.raises(DecodeError):
            decode_value(raw(amqp.Source, {"dynamic-node-properties": {key: wrong}}))


# ---- archetypes ----


@pytest.mark.spec("M-TERM-011")
def test_a_default_outcome_is_an_outcome() -> None:
    for outcome in (amqp.Accepted(), amqp.Rejected(), amqp.Released(), amqp.Modified(delivery_failed=True)):
        value = amqp.Source(default_outcome=outcome)
        assert same(decode_value(value.encode(), limits=STRICT)[0], value)
    received = amqp.Received(section_number=1, section_offset=2)
    for wrong in (received, Symbol("amqp:accepted:list"), amqp.Error(condition="x"), 1):
        with pytest.raises(EncodeError, match="does not provide outcome") as encoding:
            amqp.Source(default_outcome=wrong).encode()
        assert encoding.value.field == "default-outcome"
        with pytest.raises(DecodeError, match="does not provide outcome") as decoding:
            decode_value(raw(amqp.Source, {"default-outcome": wrong}))
        assert decoding.value.field == "default-outcome"
    state = amqp.Disposition(role=amqp.Role.RECEIVER, first=0, state=received)
    again: Any = decode_performative(state.encode())[0]
    assert again.state == received


@pytest.mark.spec("M-TERM-014")
def test_outcomes_are_named_by_their_descriptors() -> None:
    names = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
    value = amqp.Source(outcomes=[Symbol(name) for name in names])
    assert same(decode_value(value.encode(), limits=STRICT)[0], value)
    for name in names:
        assert decode_value(raw(amqp.Source, {"outcomes": Symbol(name)}))[0].outcomes == [name]
    for wrong in ("accepted", "amqp:received:list", "amqp:error:list", ""):
        for listed in ([Symbol(wrong)], [Symbol(names[0]), Symbol(wrong)]):
            with pytest.raises(EncodeError, match="not the descriptor of a type that provides outcome"):
                amqp.Source(outcomes=listed).encode()
            with pytest.raises(
                DecodeError, match="not the descriptor of a type that provides outcome"
            ) as caught:
                decode_value(raw(amqp.Source, {"outcomes": Array(listed, "symbol")}))
            assert (caught.value.type, caught.value.field) == ("source", "outcomes")


def test_archetypes_are_open_to_what_this_dialect_does_not_know() -> None:
    unknown = Described(Symbol("example:state"), [1, "two"])
    for value in (
        amqp.Disposition(role=amqp.Role.RECEIVER, first=0, state=unknown),
        amqp.Source(address=unknown),
    ):
        assert same(decode_value(value.encode(), limits=STRICT)[0], value)


@pytest.mark.parametrize(
    "descriptor", [amqp.UInt(0x24), 0x24, "amqp:accepted:list", None, [], amqp.UByte(0x24)]
)
def test_a_descriptor_in_an_archetypes_place_is_a_ulong_or_a_symbol(descriptor: object) -> None:
    """Other descriptors are reserved; one that equals a known number is not taken for it."""
    wrong = Described(descriptor, [])
    with pytest.raises(EncodeError, match="does not provide delivery-state"):
        amqp.Disposition(role=amqp.Role.RECEIVER, first=0, state=wrong).encode()
    with pytest.raises(DecodeError, match="does not provide delivery-state"):
        decode_value(raw(amqp.Disposition, {"state": wrong}))
    assert same(decode_value(encode_value(wrong))[0], wrong)


def test_an_unknown_error_condition_is_kept() -> None:
    for condition in ("amqp:not-found", "com.microsoft:timeout"):
        again = decode_value(amqp.Error(condition=condition).encode())[0]
        assert again.condition == condition
        assert isinstance(again.condition, Symbol)
    assert (
        decode_value(amqp.Error(condition="amqp:not-found").encode())[0].condition is amqp.AmqpError.NOT_FOUND
    )


# ---- single fields ----


@pytest.mark.spec("T-XFER-058")
@pytest.mark.parametrize("size", [0, 1, 32, 33, 255, 256, 70_000])
def test_a_delivery_tag_has_at_most_32_octets(size: int) -> None:
    value = amqp.Transfer(handle=0, delivery_tag=bytes(size))
    octets = raw(amqp.Transfer, {"delivery-tag": bytes(size)})
    if size <= 32:
        assert decode_value(value.encode())[0] == value
        assert decode_value(octets)[0].delivery_tag == bytes(size)
        return
    with pytest.raises(EncodeError, match=f"holds at most 32 octets, not {size}") as encoding:
        value.encode()
    assert (encoding.value.type, encoding.value.field) == ("transfer", "delivery-tag")
    with pytest.raises(DecodeError, match=f"holds at most 32 octets, not {size}") as decoding:
        decode_value(octets)
    assert (decoding.value.type, decoding.value.field) == ("transfer", "delivery-tag")


@pytest.mark.spec("T-XFER-059")
def test_a_message_format_is_a_format_and_its_version() -> None:
    assert split_message_format(0x12345607) == (0x123456, 7)
    assert split_message_format(0xFFFFFFFF) == (0xFFFFFF, 255)
    assert split_message_format(0) == (0, 0)
    for number in (0, 1, 0x100, 0x12345607, 0xFFFFFFFF):
        assert join_message_format(*split_message_format(number)) == number
    assert can_read_format(0x12345607, 0x12345607)
    assert can_read_format(0x12345607, 0x12345608)
    assert not can_read_format(0x12345607, 0x12345606)
    assert not can_read_format(0x12345607, 0x12345707)
    assert can_read_format(amqp.MESSAGE_FORMAT, 0xFF)


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_message_format_out_of_range(number: int) -> None:
    with pytest.raises(ValueError, match="a message-format is 0 to 4294967295"):
        split_message_format(number)
    for kind, version in ((-1, 0), (1 << 24, 0), (0, -1), (0, 256)):
        with pytest.raises(ValueError, match="out of range"):
            join_message_format(kind, version)


@pytest.mark.spec("T-FRAME-018")
def test_an_open_without_a_frame_size_sets_no_limit() -> None:
    for octets in (raw(amqp.Open, {}, 1), raw(amqp.Open, {"max-frame-size": None})):
        assert decode_value(octets)[0].max_frame_size == 4294967295
    assert raw(amqp.Open, {}, 1) == amqp.Open(container_id="s", max_frame_size=4294967295).encode()
