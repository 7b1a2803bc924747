// What a user may write, and what the compiler has to refuse; nothing here runs.

import {
  Accepted,
  AmqpError,
  AmqpMap,
  AmqpSymbol,
  AmqpValue,
  Attach,
  CONNECTION_TRANSITIONS,
  ConnectionEvent,
  ConnectionState,
  decodeFrame,
  decodeMessage,
  encodeFrame,
  encodeMessage,
  FrameReader,
  Message,
  Properties,
  Rejected,
  Role,
  Source,
  Transfer,
  UInt,
  ULong,
  type Value,
  WireError,
} from "#amqp";

const attach = new Attach({ name: "n", handle: 0, role: Role.SENDER, source: new Source({ address: "a" }) });
const size: bigint | null = attach.maxMessageSize;
const value: Value = new AmqpMap<Value, Value>([[new AmqpSymbol("k"), [1, 2n, "three", new UInt(4), null]]]);
const message = new Message({ properties: new Properties({ messageId: new ULong(1n) }), body: new AmqpValue(value) });
const rejected = new Rejected({ error: new WireError({ condition: AmqpError.NOT_FOUND }) });
const next: number = CONNECTION_TRANSITIONS[ConnectionState.START]![ConnectionEvent.SEND_HEADER]!;

// @ts-expect-error: a mandatory field is left out.
new Transfer({});
// @ts-expect-error: a ulong is a bigint.
new Attach({ name: "n", handle: 0, role: Role.SENDER, maxMessageSize: 1 });
// @ts-expect-error: an accepted is no source.
new Attach({ name: "n", handle: 0, role: Role.SENDER, source: new Accepted() });
// @ts-expect-error: one wire type is not another.
const other: UInt = new ULong(1n);

export function bodies(stream: Iterable<Uint8Array>): Message["body"][] {
  const reader = new FrameReader();
  const found: Message["body"][] = [];
  for (const chunk of stream) {
    for (const item of reader.feed(chunk)) {
      const { performative, payload } = decodeFrame(item).value;
      if (performative instanceof Transfer && !performative.more) {
        found.push(decodeMessage(payload).body);
      }
    }
  }
  return found;
}

export const used: unknown[] = [size, rejected, next, other, encodeFrame(attach), encodeMessage(message)];
