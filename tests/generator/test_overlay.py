"""Overlays: additions, changes and removals laid over a base, and every way in which one does not fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from lxml import etree

from amqpforge_generator.document import Digest, Location
from amqpforge_generator.model import Class, Dialect, Method
from amqpforge_spec import schema
from tests.generator.forging import TARGET, make_workshop
from tests.generator.inline import load_only, problems_of, section

NAMESPACES = (
    'xmlns="https://amqpforge.org/schema/class-method" xmlns:f="https://amqpforge.org/schema/extensions"'
)

BASE = f"""\
<amqp {NAMESPACES} name="domains" major="0" label="The base">
  <constant name="first" value="1"/>
  <constant name="letter" value="0x55" class="field-table-type" width="2" datatype="signed-integer"/>
  <domain name="bit" type="bit" f:category="bit" f:width="0" f:holds="boolean"/>
  <domain name="short" type="short" f:category="fixed" f:width="2" f:holds="unsigned"/>
  <domain name="no-wait" type="bit"/>
  <class name="queue" index="50" label="Queues">
    <chassis name="server" implement="MUST"/>
    <field name="priority" domain="short"/>
    <method name="declare" synchronous="1" index="10" label="Declare" f:ref="1.7">
      <doc><p>A queue.</p></doc>
      <chassis name="server" implement="MUST"/>
      <response name="declare-ok"/>
      <field name="reserved-1" domain="short" default="0" label="Not used"/>
      <field name="passive" domain="bit"/>
      <field name="no-wait" domain="no-wait" default="0"/>
    </method>
    <method name="declare-ok" index="11"><chassis name="client" implement="MUST"/></method>
    <method name="purge" index="20"><chassis name="server" implement="MUST"/></method>
  </class>
</amqp>
"""


def overlay(*lines: str, name: str = "over", base: str = "domains") -> str:
    """An overlay file; the first of the lines is line 2 of the file."""
    return "\n".join([f'<overlay {NAMESPACES} name="{name}" base="{base}">', *lines, "</overlay>"])


def laid(folder: Path, *lines: str, **files: str) -> Dialect:
    """The dialect of the base with an overlay of these lines."""
    return load_only(folder, base=BASE, over=overlay(*lines), **files)


def problems(folder: Path, *lines: str, **files: str) -> list[str]:
    return problems_of(folder, **{"base": BASE, "over": overlay(*lines)} | files)


def class_of(dialect: Dialect, name: str) -> Class:
    return next(class_ for class_ in dialect.classes if class_.name.xml == name)


def method_of(dialect: Dialect, name: str) -> Method:
    owner, _, own = name.partition(".")
    return next(method for method in class_of(dialect, owner).methods if method.name.xml == own)


def fields_of(dialect: Dialect, name: str) -> list[str]:
    return [field.name.xml for field in method_of(dialect, name).fields]


# -- what an overlay can say


def test_constants_domains_and_classes_are_added_where_they_belong(tmp_path: Path) -> None:
    dialect = laid(
        tmp_path,
        '<constant name="last" value="3"/>',
        '<constant name="zeroth" value="0" f:before="first"/>',
        '<domain name="name" type="short" f:before="no-wait"/>',
        '<class name="access" index="30" f:before="queue">',
        '  <method name="request" index="10"><field name="realm" domain="name"/></method>',
        "</class>",
        '<class name="tx" index="90"/>',
    )
    (module,) = dialect.modules
    assert [item.name.xml for item in module.definitions] == ["major", "zeroth", "first", "letter", "last"]
    assert [type_.name.xml for type_ in module.types] == ["bit", "short", "name", "no-wait"]
    assert [class_.name.xml for class_ in dialect.classes] == ["access", "queue", "tx"]
    (realm,) = method_of(dialect, "access.request").fields
    assert (realm.primitive, realm.at) == ("short", Location("tiny/over.xml", 6))


def test_classes_and_methods_are_extended(tmp_path: Path) -> None:
    dialect = laid(
        tmp_path,
        '<extend class="queue">',
        '  <chassis name="client" implement="MAY"/>',
        '  <field name="kind" domain="short" f:before="priority"/>',
        '  <method name="delete" synchronous="1" index="40" f:before="purge">',
        '    <chassis name="server" implement="MUST"/>',
        '    <response name="delete-ok"/>',
        "  </method>",
        '  <method name="delete-ok" index="41"/>',
        "</extend>",
        '<extend method="queue.declare">',
        '  <field name="durable" domain="bit" f:before="no-wait"/>',
        '  <field name="arguments" type="short"/>',
        "</extend>",
        '<extend method="queue.purge">',
        '  <chassis name="client" implement="MAY"/>',
        '  <response name="declare-ok"/>',
        "</extend>",
    )
    queue = class_of(dialect, "queue")
    assert [(item.peer, item.level) for item in queue.chassis] == [("server", "MUST"), ("client", "MAY")]
    assert [field.name.xml for field in queue.fields] == ["kind", "priority"]
    names = [method.name.xml for method in queue.methods]
    assert names == ["declare", "declare-ok", "delete", "purge", "delete-ok"]
    assert [name.xml for name in method_of(dialect, "queue.delete").responses] == ["delete-ok"]
    assert fields_of(dialect, "queue.declare") == [
        *("reserved-1", "passive", "durable", "no-wait", "arguments"),
    ]
    purge = method_of(dialect, "queue.purge")
    assert purge.sent_by == ("client", "server")
    assert [name.xml for name in purge.responses] == ["declare-ok"]


def test_fields_are_changed_in_place(tmp_path: Path) -> None:
    dialect = laid(
        tmp_path,
        '<change field="queue.declare.reserved-1" name="ticket" default="7" was="0" label="A ticket"/>',
        '<change field="queue.declare.no-wait" name="nowait" type="bit" was="no-wait"/>',
        '<change field="queue.priority" domain="bit"/>',
    )
    ticket, passive, nowait = method_of(dialect, "queue.declare").fields
    assert (ticket.name.xml, ticket.default, ticket.doc.label) == ("ticket", 7, "A ticket")
    assert (passive.name.xml, passive.at) == ("passive", Location("tiny/base.xml", 15))
    assert nowait.type is not None
    assert (nowait.name.xml, nowait.type.name.xml, nowait.default) == ("nowait", "bit", False)
    assert (ticket.at, nowait.at) == (Location("tiny/over.xml", 2), Location("tiny/over.xml", 3))
    (priority,) = class_of(dialect, "queue").fields
    assert priority.primitive == "bit"


def test_classes_methods_and_constants_are_changed(tmp_path: Path) -> None:
    dialect = laid(
        tmp_path,
        '<change class="queue" index="51" was="50"/>',
        '<change method="queue.purge" name="empty" index="30" synchronous="true" content="1"/>',
        '<change method="queue.declare" synchronous="0" label="See to it"/>',
        '<change constant="first" name="one" value="0x01" was="1"/>',
        '<change constant="letter" value="0x73" was="0x55"><doc><p>Small s.</p></doc></change>',
    )
    assert class_of(dialect, "queue").code == 51
    empty = method_of(dialect, "queue.empty")
    assert (empty.code, empty.is_synchronous, empty.has_content) == (30, True, True)
    declare = method_of(dialect, "queue.declare")
    assert not declare.is_synchronous
    assert (declare.doc.label, declare.doc.paragraphs, declare.doc.reference) == (
        "See to it",
        ("A queue.",),
        "1.7",
    )
    _, one, letter = dialect.modules[0].definitions
    assert (one.name.xml, one.value) == ("one", 1)
    assert letter.value == 0x73
    assert letter.doc.paragraphs == ("Small s.",)
    (form,) = dialect.value_encodings
    assert (form.code, form.width, form.holds, form.at) == (0x73, 2, "signed", Location("tiny/over.xml", 6))


def test_everything_can_be_removed_and_made_anew(tmp_path: Path) -> None:
    dialect = laid(
        tmp_path,
        '<remove constant="first"/>',
        '<remove constant="letter"/>',
        '<remove field="queue.priority"/>',
        '<remove field="queue.declare.no-wait"/>',
        '<remove domain="no-wait"/>',
        '<domain name="no-wait" type="short"/>',
        '<remove method="queue.purge"/>',
        '<extend class="queue"><method name="purge" index="60"/></extend>',
    )
    (module,) = dialect.modules
    assert [item.name.xml for item in module.definitions] == ["major"]
    assert class_of(dialect, "queue").fields == ()
    assert fields_of(dialect, "queue.declare") == ["reserved-1", "passive"]
    assert module.types[-1].primitive == "short"
    assert method_of(dialect, "queue.purge").code == 60
    assert laid(tmp_path, '<remove class="queue"/>').classes == ()


def test_what_is_not_named_stays_as_it_is(tmp_path: Path) -> None:
    alone = load_only(tmp_path, base=BASE)
    assert alone.modules[0].overlays == ()
    laid_over = laid(tmp_path)
    assert [class_.methods[0].name for class_ in laid_over.classes] == [alone.classes[0].methods[0].name]
    assert repr(laid_over.classes) == repr(alone.classes)
    assert repr(laid_over.modules[0].sections) == repr(alone.modules[0].sections)


def test_several_overlays_apply_in_the_order_of_their_file_names(tmp_path: Path) -> None:
    first = overlay(
        '<change field="queue.declare.reserved-1" name="ticket"/>',
        '<class name="confirm" index="85"/>',
        name="first",
    )
    second = overlay(
        '<change field="queue.declare.ticket" label="A ticket"/>',
        '<change field="queue.declare.reserved-1" domain="bit"/>',
        '<extend class="confirm"><method name="select" index="10"/></extend>',
        name="second",
    )
    dialect = load_only(tmp_path, base=BASE, x1=first, x2=second)
    (ticket, *_) = method_of(dialect, "queue.declare").fields
    assert (ticket.name.xml, ticket.doc.label, ticket.primitive) == ("ticket", "A ticket", "bit")
    assert method_of(dialect, "confirm.select").code == 10
    digests = [(f"tiny/{name}.xml", text) for name, text in (("x1", first), ("x2", second))]
    assert dialect.modules[0].overlays == tuple(
        Digest(file=file, sha256=hashlib.sha256(text.encode()).hexdigest()) for file, text in digests
    )


def test_overlays_may_agree(tmp_path: Path) -> None:
    same = (
        '<change field="queue.declare.no-wait" name="nowait" type="bit" was="no-wait" label="Do not wait"/>'
    )
    dialect = load_only(tmp_path, base=BASE, x1=overlay(same), x2=overlay(same))
    assert fields_of(dialect, "queue.declare") == ["reserved-1", "passive", "nowait"]


# -- what does not fit

DECLARE = "method 'queue.declare' (tiny/base.xml:10)"

MISFITS = {
    "field that is gone": (
        '<change field="queue.declare.reserved-2" name="x"/>',
        f"{DECLARE} has no field 'reserved-2'; did you mean 'reserved-1'?",
    ),
    "method that is gone": (
        '<change method="queue.bind" index="1"/>',
        "class 'queue' (tiny/base.xml:7) has no method 'bind'",
    ),
    "class that is gone": (
        '<remove field="exchange.declare.type"/>',
        "the base (tiny/base.xml:1) has no class 'exchange'",
    ),
    "constant that is gone": (
        '<remove constant="frist"/>',
        "the base (tiny/base.xml:1) has no constant 'frist'; did you mean 'first'?",
    ),
    "extension of nothing": (
        '<extend method="queue.delcare"><field name="x" domain="bit"/></extend>',
        "class 'queue' (tiny/base.xml:7) has no method 'delcare'; did you mean 'declare'?",
    ),
    "place that is gone": (
        '<extend method="queue.declare"><field name="x" domain="bit" f:before="pasive"/></extend>',
        f"{DECLARE} has no field 'pasive'; did you mean 'passive'?",
    ),
    "constant that is there": (
        '<constant name="first" value="2"/>',
        "constant 'first' is there already; first at tiny/base.xml:2",
    ),
    "domain that is there": (
        '<domain name="bit" type="short"/>',
        "domain 'bit' is there already; first at tiny/base.xml:4",
    ),
    "class that is there": (
        '<class name="queue" index="1"/>',
        "class 'queue' is there already; first at tiny/base.xml:7",
    ),
    "method that is there": (
        '<extend class="queue"><method name="purge" index="1"/></extend>',
        "method 'purge' is there already; first at tiny/base.xml:19",
    ),
    "field that is there": (
        '<extend method="queue.declare"><field name="passive" domain="bit"/></extend>',
        "field 'passive' is there already; first at tiny/base.xml:15",
    ),
    "property that is there": (
        '<extend class="queue"><field name="priority" domain="bit"/></extend>',
        "field 'priority' is there already; first at tiny/base.xml:9",
    ),
    "chassis that is there": (
        '<extend method="queue.declare"><chassis name="server" implement="MAY"/></extend>',
        f"{DECLARE} has a chassis of the server already",
    ),
    "response that is there": (
        '<extend method="queue.declare"><response name="declare-ok"/></extend>',
        f"{DECLARE} has the response 'declare-ok' already",
    ),
    "new name that is taken": (
        '<change field="queue.declare.reserved-1" name="passive"/>',
        "field 'passive' is there already; first at tiny/base.xml:15",
    ),
    "other old value": (
        '<change field="queue.declare.no-wait" type="bit" was="bit"/>',
        "field 'queue.declare.no-wait' (tiny/base.xml:16) has the type 'no-wait', not 'bit'",
    ),
    "no old value": (
        '<change field="queue.declare.passive" default="1" was="0"/>',
        "field 'queue.declare.passive' (tiny/base.xml:15) has no default, not '0'",
    ),
    "change that the base has made": (
        '<change method="queue.purge" index="20" was="30"/>',
        "method 'queue.purge' (tiny/base.xml:19) has the index '20' already",
    ),
}


@pytest.mark.parametrize(("line", "message"), MISFITS.values(), ids=MISFITS)
def test_an_entry_that_does_not_fit_names_both_places(line: str, message: str, tmp_path: Path) -> None:
    assert problems(tmp_path, line) == [f"tiny/over.xml:2: {message}"]


CLASHES = {
    "names": (
        '<change field="queue.declare.reserved-1" name="ticket"/>',
        '<change field="queue.declare.reserved-1" name="token"/>',
        "field 'queue.declare.reserved-1' (tiny/base.xml:14): the name is changed here, and differently at "
        "tiny/over.xml:2",
    ),
    "types": (
        '<change field="queue.declare.no-wait" type="bit"/>',
        '<change field="queue.declare.no-wait" domain="short"/>',
        "field 'queue.declare.no-wait' (tiny/base.xml:16): the domain is changed here, and differently at "
        "tiny/over.xml:2",
    ),
    "labels": (
        '<change method="queue.purge" label="Empty"/>',
        '<change method="queue.purge" label="Clear"/>',
        "method 'queue.purge' (tiny/base.xml:19): the label is changed here, and differently at "
        "tiny/over.xml:2",
    ),
    "removal of what was changed": (
        '<change field="queue.declare.passive" default="1"/>',
        '<remove method="queue.declare"/>',
        "method 'queue.declare' (tiny/base.xml:10) is removed here, and changed at tiny/over.xml:2",
    ),
    "change of what was removed": (
        '<remove field="queue.declare.passive"/>',
        '<change field="queue.declare.passive" default="1"/>',
        f"{DECLARE} has no field 'passive'; removed at tiny/over.xml:2",
    ),
    "additions": (
        '<class name="confirm" index="85"/>',
        '<class name="confirm" index="86"/>',
        "class 'confirm' is there already; first at tiny/over.xml:2",
    ),
}


@pytest.mark.parametrize(("first", "second", "message"), CLASHES.values(), ids=CLASHES)
def test_overlays_that_disagree_name_both_places(
    first: str, second: str, message: str, tmp_path: Path
) -> None:
    assert problems(tmp_path, first, zz=overlay(second)) == [f"tiny/zz.xml:2: {message}"]
    (tmp_path / "tiny" / "zz.xml").unlink()
    assert problems(tmp_path, first, second) == [f"tiny/over.xml:3: {message}"]


def test_later_problems_point_to_the_overlay(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        '<change field="queue.declare.passive" type="bitt"/>',
        '<extend method="queue.purge">',
        '  <field name="count" domain="short" default="65536"/>',
        "</extend>",
        '<change method="queue.purge" index="10"/>',
        '<change constant="letter" value="300"/>',
        '<change class="queue" index="fifty"/>',
    ) == [
        "tiny/over.xml:2: field 'passive' has the unknown type 'bitt'; did you mean 'bit'?",
        "tiny/over.xml:4: default '65536' of field 'count' is not a legal short: outside 0 to 65535",
        "tiny/over.xml:6: duplicate method code 10; first at tiny/base.xml:10",
        "tiny/over.xml:7: encoding code '300' is not of the form 0xHH",
        "tiny/over.xml:8: class code 'fifty' is not a whole number",
    ]


def test_what_still_refers_to_a_removed_domain_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, '<remove domain="no-wait"/>') == [
        "tiny/base.xml:16: field 'no-wait' has the unknown type 'no-wait'"
    ]


def test_all_misfits_are_told_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, '<remove class="a"/>', '<remove class="b"/>', '<remove class="queue"/>')
    assert [problem.split(": ")[0] for problem in found] == ["tiny/over.xml:2", "tiny/over.xml:3"]


# -- the base itself


def test_a_base_has_to_be_there(tmp_path: Path) -> None:
    other = overlay('<remove constant="first"/>', base="domain")
    message = "tiny/over.xml:1: no file here has the name 'domain' of the base; did you mean 'domains'?"
    assert problems(tmp_path, over=other) == [message]
    (tmp_path / "tiny" / "base.xml").unlink()
    assert problems_of(tmp_path, over=other) == [
        "tiny/over.xml:1: no file here has the name 'domain' of the base"
    ]


def test_a_base_that_cannot_be_read_is_the_only_complaint(tmp_path: Path) -> None:
    found = problems_of(tmp_path, base=BASE.replace("</amqp>", ""), over=overlay('<remove class="queue"/>'))
    assert len(found) == 1
    assert found[0].startswith("tiny/base.xml:")


def test_only_the_class_method_grammar_takes_overlays(tmp_path: Path) -> None:
    part = section('<definition name="A" value="1"/>')
    assert problems_of(tmp_path, part=part, over=overlay(base="part")) == [
        "tiny/over.xml:1: tiny/part.xml is written in amqp-1.0; overlays are for class-method"
    ]


# -- the form of an overlay

MALFORMED = {
    "nothing to change": (
        "<change/>",
        "<change> names one element, by one of the attributes constant, class, method, field",
    ),
    "two elements": (
        '<remove constant="first" domain="bit"/>',
        "<remove> names one element, by one of the attributes constant, domain, class, method, field",
    ),
    "method without class": (
        '<remove method="purge"/>',
        "method 'purge' of <remove> is not of the form class.method",
    ),
    "field too deep": (
        '<change field="a.b.c.d" name="x"/>',
        "field 'a.b.c.d' of <change> is not of the form class.method.field or class.field",
    ),
    "empty name": (
        '<change field="queue..x" name="y"/>',
        "field 'queue..x' of <change> is not of the form class.method.field or class.field",
    ),
    "change of nothing": ('<change method="queue.purge"/>', "changes nothing of method 'queue.purge'"),
    "value of another kind": (
        '<change field="queue.priority" index="1"/>',
        "a field has no 'index' that could be changed; name, type, domain, default",
    ),
    "domain and type": (
        '<change field="queue.priority" type="bit" domain="bit"/>',
        "field 'queue.priority': give either 'domain' or 'type'",
    ),
    "old value of which": (
        '<change method="queue.purge" index="1" content="1" was="20"/>',
        "'was' is the old value of one attribute besides the name; method 'queue.purge' gets others",
    ),
    "old value of a name": (
        '<change method="queue.purge" name="x" was="purge"/>',
        "'was' is the old value of one attribute besides the name; method 'queue.purge' gets others",
    ),
    "method inside a method": (
        '<extend method="queue.purge"><method name="x" index="1"/></extend>',
        "method 'queue.purge' is extended, and a <method> cannot be in a method",
    ),
    "response of a class": (
        '<extend class="queue"><response name="purge"/></extend>',
        "class 'queue' is extended, and a <response> cannot be in a class",
    ),
    "place of what is inside": (
        '<class name="x" index="1"><method name="y" index="1" f:before="z"/></class>',
        "f:before is for what an overlay adds by itself, not for what is inside it",
    ),
    "unknown element": ("<chang/>", "element <chang> is not known inside <overlay>; did you mean 'change'?"),
}


@pytest.mark.parametrize(("line", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_entry_is_told(line: str, message: str, tmp_path: Path) -> None:
    assert f"tiny/over.xml:2: {message}" in problems(tmp_path, line)


ACCEPTED = {
    "additions": (
        '<constant name="c" value="1" f:before="d"/><domain name="e" type="bit"/>'
        '<class name="f" index="1" f:before="g"/>'
    ),
    "extension of a class": (
        '<extend class="c"><field name="f" type="bit"/><chassis name="client" implement="MAY"/>'
        '<method name="m" index="1"/></extend>'
    ),
    "extension of a method": '<extend method="c.m"><response name="r"/><field name="f" domain="d"/></extend>',
    "change of a constant": '<change constant="c" value="1" was="2"/>',
    "change of a class": '<change class="c" index="1" label="C"/>',
    "change of a method": '<change method="c.m" synchronous="1" content="0"><doc><p>M.</p></doc></change>',
    "change of a field": '<change field="c.m.f" name="g" domain="d" default=""/>',
    "removals": '<remove constant="c"/><remove domain="d"/><remove field="c.f"/>',
}

REFUSED = [
    '<extend class="c" method="c.m"/>',
    '<extend method="m"/>',
    '<change constant="c" index="1"/>',
    '<change field="c.f" type="a" domain="b"/>',
    "<change/>",
    '<remove class="c" label="C"/>',
    '<extend class="c"><response name="r"/></extend>',
    "<amqp/>",
]


def is_valid(body: str) -> bool:
    return etree.RelaxNG(etree.parse(schema("overlay"))).validate(etree.fromstring(overlay(body)))


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_the_schema_accepts(body: str) -> None:
    assert is_valid(body)


@pytest.mark.parametrize("body", REFUSED)
def test_the_schema_refuses(body: str) -> None:
    assert not is_valid(body)


# -- outputs


def test_outputs_name_the_overlay_and_go_stale_with_it(tmp_path: Path) -> None:
    target = TARGET.replace('each = "type"', 'each = "module"').replace("{type}", "{module}")
    shop = make_workshop(tmp_path, target, type_txt="{{ module.classes | map(attribute='code') | join }}\n")
    shop.definition.write_text(BASE, encoding="utf-8")
    over = shop.definition.with_name("over.xml")
    over.write_text(overlay('<change class="queue" index="51"/>'), encoding="utf-8")
    assert shop.run().code == 0
    output = shop.out / "small" / "domains.txt"
    digests = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in (shop.definition, over)]
    assert output.read_text("utf-8").splitlines()[1:] == [
        *(f"# source small/{name} sha256 {digest}" for name, digest in digests),
        "",
        "51",
    ]
    assert shop.run("--check").code == 0
    over.write_text(overlay('<change class="queue" index="52"/>'), encoding="utf-8")
    assert "differs: out/small/domains.txt" in shop.run("--check").out
    assert shop.run().code == 0
    assert output.read_text("utf-8").endswith("\n52\n")
    over.unlink()
    assert shop.run("--check").code == 1
