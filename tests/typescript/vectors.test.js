// What the Python package makes of octets and values, this package makes of them too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import * as amqp from "#amqp";
import { readStream } from "./read_stream.js";
import { fromJson, hex, messageFromJson, octets, sectionsToJson, toJson, typed } from "./notation.js";

const LIMITS = {
  "": amqp.DEFAULT_LIMITS,
  strict: { ...amqp.DEFAULT_LIMITS, strict: true },
  narrow: { ...amqp.DEFAULT_LIMITS, depth: 3, elements: 6 },
};

function rows(name) {
  const text = readFileSync(new URL(`build/vectors/${name}.jsonl`, import.meta.url), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

const DECODERS = {
  value(data, limits) {
    const { value, end } = amqp.decodeValue(data, 0, limits);
    return { json: toJson(value), end, again: hex(amqp.encodeValue(value)) };
  },
  frame(data, limits) {
    const { value: frame, end } = amqp.decodeFrame(data, 0, limits);
    const json = {
      type: frame.type,
      channel: frame.channel,
      performative: toJson(frame.performative),
      payload: hex(frame.payload),
    };
    return { json, end, again: hex(amqp.encodeFrame(frame.performative, frame.channel ?? 0, frame.payload)) };
  },
  message(data, limits) {
    const message = amqp.decodeMessage(data, limits);
    const bare = message.bare === null ? null : hex(message.bare);
    try {
      const again = amqp.encodeMessage(message);
      return { json: sectionsToJson(again), bare, again: hex(again) };
    } catch (error) {
      assert.ok(error instanceof amqp.EncodeError, error);
      return { bare, unencodable: [error.type ?? null, error.field ?? null] };
    }
  },
};

function decoded(row) {
  try {
    return DECODERS[row.kind](octets(row.hex), LIMITS[row.limits]);
  } catch (error) {
    assert.ok(error instanceof amqp.DecodeError, error);
    return { error: [error.type ?? null, error.field ?? null, error.offset ?? null] };
  }
}

/** Compare what is made of a row with what Python makes of it. */
function check(row) {
  const { kind, hex: _, limits, name: __, told, ...expected } = row;
  assert.deepEqual(decoded(row), expected, `${kind} ${row.hex.slice(0, 200)} ${limits}`);
}

test("the golden vectors", () => {
  const golden = rows("golden");
  assert.ok(golden.length > 1_700);
  for (const row of golden) {
    if (row.kind === "header") {
      const { value, end } = amqp.decodeProtocolHeader(octets(row.hex));
      const { id, major, minor, revision } = row.told;
      assert.deepEqual({ ...value }, { protocolId: id, major, minor, revision });
      assert.equal(end, 8);
      assert.equal(hex(value.encode()), row.hex);
      continue;
    }
    check(row);
    if (row.told !== undefined) {
      assert.deepEqual(typed(amqp.decodeValue(octets(row.hex)).value), row.told, row.name);
    }
  }
});

test("ten thousand generated values, octet by octet", () => {
  const generated = rows("generated");
  assert.equal(generated.length, 10_000);
  for (const row of generated) {
    if (row.kind === "message") {
      const message = messageFromJson(row.json);
      assert.equal(hex(amqp.encodeMessage(message)), row.hex);
      assert.deepEqual(sectionsToJson(octets(row.hex)), row.json);
      assert.equal(hex(amqp.encodeMessage(amqp.decodeMessage(octets(row.hex)))), row.hex);
    } else {
      assert.equal(hex(amqp.encodeValue(fromJson(row.json))), row.hex, JSON.stringify(row.json));
      assert.deepEqual(toJson(amqp.decodeValue(octets(row.hex)).value), row.json);
    }
  }
});

test("the same facts of an error: type, field, offset", () => {
  const faults = rows("faults");
  assert.ok(faults.filter((row) => row.error !== undefined).length > 10_000);
  faults.forEach(check);
});

test("every stream of every capture, however it is cut", () => {
  for (const row of rows("captures")) {
    const data = Uint8Array.from(Buffer.from(row.octets, "base64"));
    for (const size of [1_000, data.length || 1]) {
      const { lines, messages } = readStream(data, size);
      assert.deepEqual(lines, row.items, `${row.name} in pieces of ${size}`);
      assert.deepEqual(messages, row.messages, row.name);
    }
  }
});
