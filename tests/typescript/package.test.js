// What the vectors cannot say: errors of encoding, maps, streams that cannot be read on, results that stay as they are.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";
import { fileURLToPath } from "node:url";

import * as amqp from "#amqp";

const facts = (type, field) => (error) =>
  error instanceof amqp.EncodeError && error.type === type && error.field === field;

test("an error of encoding names type and field", () => {
  assert.throws(() => new amqp.Open({}).encode(), facts("open", "container-id"));
  assert.throws(() => new amqp.Open({ containerId: "c", channelMax: 65536 }).encode(), facts("open", "channel-max"));
  assert.throws(
    () => new amqp.Transfer({ handle: 0, deliveryTag: new Uint8Array(33) }).encode(),
    facts("transfer", "delivery-tag"),
  );
  assert.throws(
    () => new amqp.Attach({ name: "n", handle: 0, role: true, sndSettleMode: 3 }).encode(),
    facts("attach", "snd-settle-mode"),
  );
  assert.throws(
    () => new amqp.Attach({ name: "n", handle: 0, role: true, source: new amqp.Accepted() }).encode(),
    facts("attach", "source"),
  );
  assert.throws(() => new amqp.Source({ outcomes: ["nothing"] }).encode(), facts("source", "outcomes"));
  assert.throws(() => amqp.encodeMessage(new amqp.Message()), facts("message", "body"));
});

test("values that no type holds are refused", () => {
  const circle = [];
  circle.push(circle);
  for (const value of [
    1n << 63n,
    "\ud800",
    "a\udc00b",
    new amqp.AmqpSymbol("é"),
    new amqp.UInt(1.5),
    new amqp.UByte(-1),
    new amqp.Float(1e39),
    circle,
    {},
    undefined,
  ]) {
    assert.throws(() => amqp.encodeValue(value), amqp.EncodeError);
  }
});

test("a failed call leaves nothing behind in the next one", () => {
  assert.throws(() => amqp.encodeValue(["a", undefined]), amqp.EncodeError);
  assert.deepEqual([...amqp.encodeValue("b")], [0xa1, 1, 0x62]);
});

test("a result stays as it is when others are made", () => {
  const results = Array.from({ length: 5_000 }, (_, index) => amqp.encodeValue(`number ${index}`));
  results.forEach((octets, index) => assert.equal(amqp.decodeValue(octets).value, `number ${index}`));
});

test("a map tells keys apart by type, in their order", () => {
  const keys = [
    "a",
    new amqp.AmqpSymbol("a"),
    1,
    1n,
    new amqp.UInt(1),
    new amqp.ULong(1n),
    true,
    null,
    0,
    -0,
    new Uint8Array([1]),
    [1, "1"],
    ["1", 1],
  ];
  const map = new amqp.AmqpMap(keys.map((key, index) => [key, index]));
  assert.equal(map.size, keys.length);
  assert.equal(map.get(new amqp.AmqpSymbol("a")), 1);
  assert.equal(map.get(new amqp.UInt(1)), 4);
  assert.ok(map.set("a", "again").delete(1n) && !map.has(1n));
  assert.deepEqual(
    [...map].map(([, value]) => value),
    ["again", 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12],
  );
  const again = amqp.decodeValue(amqp.encodeValue(map)).value;
  assert.deepEqual([...again], [...map]);
});

test("limits hold, whatever a peer claims", () => {
  const deep = Uint8Array.from(
    Array.from({ length: 100 }, (_, level) => [0xc0, 2 * (100 - level), 1])
      .flat()
      .slice(0, 300),
  );
  assert.throws(() => amqp.decodeValue(deep), amqp.DecodeError);
  const many = Uint8Array.of(0xf0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x45);
  assert.throws(() => amqp.decodeValue(many), amqp.DecodeError);
  assert.throws(
    () => amqp.decodeValue(amqp.encodeValue([[[1n]]]), 0, { ...amqp.DEFAULT_LIMITS, depth: 2 }),
    amqp.DecodeError,
  );
});

test("a stream that cannot be read on says where, after the items before", () => {
  const good = amqp.encodeFrame(null);
  const reader = new amqp.FrameReader(512);
  const items = reader.feed(Uint8Array.of(...good, 0, 0, 0x10, 0, 2, 0, 0, 0));
  assert.deepEqual(items, [good]);
  assert.throws(
    () => reader.feed(new Uint8Array()),
    (error) => error instanceof amqp.DecodeError && error.offset === 8,
  );
  assert.throws(
    () => new amqp.FrameReader().feed(Uint8Array.of(0, 0, 0, 4, 2, 0, 0, 0)),
    (error) => error.offset === 0,
  );
  assert.throws(
    () => new amqp.FrameReader().feed(Uint8Array.of(0, 0, 0, 16, 5, 0, 0, 0)),
    (error) => error.offset === 4,
  );
});

test("a bare message keeps its octets until it is changed", () => {
  const octets = Uint8Array.of(0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x77, 0xb1, 0, 0, 0, 1, 0x61);
  const message = amqp.decodeMessage(octets);
  assert.deepEqual(amqp.encodeMessage(message), octets);
  message.body = new amqp.AmqpValue("b");
  assert.deepEqual([...amqp.encodeMessage(message)], [0x00, 0x53, 0x77, 0xa1, 1, 0x62]);
});

test("decimals are exact", () => {
  const value = new amqp.Decimal128(-(10n ** 34n - 1n), -6176);
  assert.equal(String(amqp.decodeValue(amqp.encodeValue(value)).value), `-${"9".repeat(34)}e-6176`);
  assert.throws(() => amqp.encodeValue(new amqp.Decimal32(12345678n)), amqp.EncodeError);
});

test("the program prints the frames of a stream", () => {
  const program = fileURLToPath(new URL("read_stream.js", import.meta.url));
  const stream = [
    new amqp.ProtocolHeader().encode(),
    amqp.encodeFrame(new amqp.Open({ containerId: "c" })),
    amqp.encodeFrame(null, 1),
  ];
  const printed = execFileSync(process.execPath, [program], { input: Buffer.concat(stream), encoding: "utf8" });
  const lines = printed
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ kind, channel, offset }) => [kind, channel, offset]),
    [
      ["header", null, 0],
      ["amqp", 0, 8],
      ["empty", 1, 8 + stream[1].length],
    ],
  );
  assert.deepEqual(lines[1].fields, { "container-id": "c" });
});
