// Reads one direction of a conversation, as it was captured, and prints its frames as `amqpforge decode --json` does:
//
//   node read_stream.js < octets

import { pathToFileURL } from "node:url";

import {
  decodeFrame,
  decodeMessage,
  decodeProtocolHeader,
  encodeMessage,
  FrameReader,
  FrameType,
  Transfer,
} from "#amqp";
import { asSent, hex, sectionsToJson } from "./notation.js";

const LARGEST_FRAME = 1 << 21;

/** The lines of a stream that arrives in pieces of `size` octets, and the sections of its complete messages. */
export function readStream(data, size) {
  const reader = new FrameReader(LARGEST_FRAME);
  const parts = new Map();
  const lines = [];
  const messages = [];
  for (let start = 0; start < data.length; start += size) {
    let offset = reader.offset;
    for (const item of reader.feed(data.subarray(start, start + size))) {
      const line = item[0] === 0x41 ? headerLine(item) : frameLine(item, (frame) => collect(frame, parts, messages));
      lines.push({ offset, ...line });
      offset += item.length;
    }
  }
  if (reader.pending > 0) {
    throw new Error(`${reader.pending} octets are left over`);
  }
  return { lines, messages };
}

function headerLine(item) {
  const { protocolId, major, minor, revision } = decodeProtocolHeader(item).value;
  const fields = { "protocol-id": protocolId, major, minor, revision };
  return { kind: "header", channel: null, performative: null, fields, payload_bytes: 0 };
}

function frameLine(item, collect) {
  const frame = decodeFrame(item).value;
  const kind = frame.type === FrameType.SASL ? "sasl" : "amqp";
  if (frame.performative === null) {
    return { kind: "empty", channel: frame.channel, performative: null, fields: {}, payload_bytes: 0 };
  }
  collect(frame);
  const { type, fields } = asSent(frame.performative, item, item[4] * 4);
  return { kind, channel: frame.channel, performative: type, fields, payload_bytes: frame.payload.length };
}

/** Put the pieces of a message together; the complete ones go to `messages`. */
function collect(frame, parts, messages) {
  const transfer = frame.performative;
  if (!(transfer instanceof Transfer)) {
    return;
  }
  const place = `${frame.channel} ${transfer.handle}`;
  const pieces = [...(parts.get(place) ?? []), frame.payload];
  parts.delete(place);
  if (transfer.more) {
    parts.set(place, pieces);
    return;
  }
  const octets = Uint8Array.from(Buffer.concat(pieces));
  if (octets.length > 0 && !transfer.aborted) {
    const message = decodeMessage(octets);
    if (message.bare !== null && !hex(encodeMessage(message)).includes(hex(message.bare))) {
      throw new Error("the octets of a bare message did not survive");
    }
    messages.push(sectionsToJson(octets));
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const chunks = [];
  for await (const chunk of process.stdin) {
    chunks.push(chunk);
  }
  for (const line of readStream(Uint8Array.from(Buffer.concat(chunks)), 4_096).lines) {
    console.log(JSON.stringify(line));
  }
}
