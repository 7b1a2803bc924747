// Our TypeScript package and rhea, in one process: decode and encode of frames and of a message.
//
//   node codecs.mjs PACKAGE CASES ROUNDS TURN_SECONDS
//
// PACKAGE is the compiled package, CASES a JSON object with the octets of a transfer, a flow and a message in hexadecimal.
// Standard output is a JSON array of { case, direction, ours, rhea }: rhea null if it is not installed, else both are
// microseconds a call, the median over the rounds.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, text, rounds, turnSeconds] = process.argv.slice(2);
const amqp = await import(pathToFileURL(home).href);
const octets = Object.fromEntries(
  Object.entries(JSON.parse(text)).map(([name, hex]) => [name, Uint8Array.from(Buffer.from(hex, "hex"))]),
);

/** Rhea with what it keeps to itself, or null. */
function loadRhea() {
  try {
    const require = createRequire(`${process.cwd()}/`);
    const root = require.resolve("rhea").replace(/[^/\\]+$/, "");
    const [frames, message, types] = ["frames.js", "message.js", "types.js"].map((name) => require(`${root}${name}`));
    return { frames, message, types };
  } catch (failure) {
    if (failure.code === "MODULE_NOT_FOUND") {
      return null;
    }
    throw failure;
  }
}

const rhea = loadRhea();

function frameCase(name, makeTheirs) {
  const ours = amqp.decodeFrame(octets[name]).value;
  const buffer = Buffer.from(octets[name]);
  const theirs = rhea && makeTheirs(Buffer.from(ours.payload));
  return {
    decode: { ours: () => amqp.decodeFrame(octets[name]), rhea: () => rhea.frames.read_frame(buffer) },
    encode: {
      ours: () => amqp.encodeFrame(ours.performative, 1, ours.payload),
      rhea: () => rhea.frames.write_frame(rhea.frames.amqp_frame(1, theirs.performative, theirs.payload)),
    },
  };
}

function messageCase() {
  const received = amqp.decodeMessage(octets.message);
  const ours = new amqp.Message(received); // one made here: without the octets that it came in
  const buffer = Buffer.from(octets.message);
  const theirs = rhea && rheaMessage(rhea.types, Buffer.from(received.body[0].value));
  return {
    decode: { ours: () => amqp.decodeMessage(octets.message), rhea: () => rhea.message.decode(buffer) },
    encode: { ours: () => amqp.encodeMessage(ours), rhea: () => rhea.message.encode(theirs) },
  };
}

function rheaMessage(types, body) {
  return {
    durable: true,
    priority: 7,
    ttl: 60000,
    message_annotations: {
      "x-opt-sequence-number": types.wrap_long(1042),
      "x-opt-offset": "118624",
      "x-opt-enqueued-time": types.wrap_timestamp(1_700_000_000_000),
    },
    message_id: "8d1e5b0c-0a6f-4a5e-9a57-1f0f3d3c2b1a",
    to: "orders/eu-west",
    subject: "order placed",
    reply_to: "replies-7",
    correlation_id: "4f9f84b3",
    content_type: "application/json",
    creation_time: 1_700_000_000_000,
    application_properties: {
      region: "eu-west",
      attempt: types.wrap_long(3),
      express: true,
      weight: types.wrap_double(0.75),
    },
    body: rhea.message.data_section(body),
  };
}

const cases = {
  transfer: frameCase("transfer", (payload) => ({
    performative: rhea.frames.transfer({
      handle: 1,
      delivery_id: 1042,
      delivery_tag: Buffer.from([0, 0, 4, 18]),
      message_format: 0,
      settled: false,
    }),
    payload,
  })),
  flow: frameCase("flow", () => ({
    performative: rhea.frames.flow({
      next_incoming_id: 1042,
      incoming_window: 2147483647,
      next_outgoing_id: 1,
      outgoing_window: 2147483647,
      handle: 1,
      delivery_count: 1042,
      link_credit: 100,
      available: 0,
    }),
  })),
  message: messageCase(),
};

/** Stop unless both say what the case says: rhea may write a number in a longer form, or a default. */
function check(name, { encode }) {
  const isMessage = name === "message";
  const canonical = (encoded) => {
    const value = isMessage ? amqp.decodeMessage(encoded) : amqp.decodeFrame(encoded).value;
    const again = isMessage
      ? amqp.encodeMessage(new amqp.Message(value))
      : amqp.encodeFrame(value.performative, 1, value.payload);
    return Buffer.from(again).toString("hex");
  };
  for (const stack of rhea === null ? ["ours"] : ["ours", "rhea"]) {
    if (canonical(Uint8Array.from(encode[stack]())) !== canonical(octets[name])) {
      throw new Error(`${stack} encodes the ${name} in another meaning`);
    }
  }
}

let sink;

/** Nanoseconds that `count` calls take. */
function timed(call, count) {
  const begin = process.hrtime.bigint();
  for (let index = 0; index < count; index++) {
    sink = call();
  }
  return Number(process.hrtime.bigint() - begin);
}

function median(numbers) {
  return numbers.sort((left, right) => left - right)[numbers.length >> 1];
}

/** How often each stack is timed in a round, in turn with the other; the best counts. */
const TURNS = 3;

/** Microseconds a call of each stack; they take turns, so what slows the machine slows both. */
function measure(calls) {
  const stacks = Object.keys(calls).filter((stack) => stack === "ours" || rhea !== null);
  const counts = {};
  for (const stack of stacks) {
    timed(calls[stack], 20_000); // long enough to be compiled
    counts[stack] = Math.max(1, Math.round((turnSeconds * 1e9) / (timed(calls[stack], 1_000) / 1_000)));
  }
  const found = { ours: [], rhea: [] };
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 ? stacks.toReversed() : stacks;
    const best = { ours: Infinity, rhea: Infinity };
    for (let turn = 0; turn < TURNS; turn++) {
      for (const stack of order) {
        best[stack] = Math.min(best[stack], timed(calls[stack], counts[stack]) / counts[stack] / 1_000);
      }
    }
    for (const stack of stacks) {
      found[stack].push(best[stack]);
    }
  }
  return { ours: median(found.ours), rhea: rhea === null ? null : median(found.rhea) };
}

const results = [];
for (const [name, directions] of Object.entries(cases)) {
  check(name, directions);
  for (const [direction, calls] of Object.entries(directions)) {
    results.push({ case: name, direction, ...measure(calls) });
  }
}
console.log(JSON.stringify(results));
if (sink === undefined) {
  throw new Error("nothing was measured");
}
