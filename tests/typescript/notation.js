// AMQP values as JSON and back: the notation of `amqpforge decode --json`, for the tests.

import * as amqp from "#amqp";

const EXACT = 2n ** 53n;
const SMALL = { ubyte: "UByte", ushort: "UShort", uint: "UInt", byte: "Byte", short: "Short", int: "Int" };
const LARGE = { ulong: "ULong", timestamp: "Timestamp" };
const BITS = { float: 0x72, double: 0x82, decimal32: 0x74, decimal64: 0x84, decimal128: 0x94 };

const CLASSES = new Map(
  Object.values(amqp).flatMap((kind) => (kind?.XML_NAME === undefined ? [] : [[kind.XML_NAME, kind]])),
);

export function hex(octets) {
  return Buffer.from(octets).toString("hex");
}

export function octets(text) {
  return Uint8Array.from(Buffer.from(text, "hex"));
}

function hasFields(kind) {
  return kind.FIELDS.length > 0 || !("value" in new kind());
}

// ---- values to JSON ----

/** A value as it stands on its own: null, booleans and strings are JSON's. */
export function toJson(value) {
  return value === null || typeof value === "boolean" || typeof value === "string" ? value : typed(value);
}

/** A value that names its type, as all do inside others. */
export function typed(value) {
  const type = amqp.typeOf(value);
  if (type !== "composite") {
    return { type, value: content(type, value) };
  }
  const kind = value.constructor;
  return hasFields(kind)
    ? { type: kind.XML_NAME, fields: fields(value) }
    : { type: kind.XML_NAME, value: typed(value.value) };
}

function content(type, value) {
  if (type in SMALL) {
    return value.value;
  }
  if (type in BITS) {
    return `0x${hex(amqp.encodeValue(value)).slice(2)}`;
  }
  switch (type) {
    case "ulong":
    case "timestamp":
      return String(value.value);
    case "long":
    case "uuid":
      return String(value);
    case "symbol":
      return value.value;
    case "char":
      return value.value.codePointAt(0);
    case "binary":
      return hex(value);
    case "list":
      return value.map(typed);
    case "map":
      return [...value].map(([key, item]) => [typed(key), typed(item)]);
    case "array":
      return {
        element: value.element,
        descriptor: value.descriptor === null ? null : typed(value.descriptor),
        items: value.items.map(typed),
      };
    case "described":
      return { descriptor: typed(value.descriptor), value: typed(value.value) };
    default:
      return value;
  }
}

/** The fields of a composite that are not null. */
function fields(value) {
  const present = value.constructor.FIELDS.filter((info) => value[info.attribute] !== null);
  return Object.fromEntries(present.map((info) => [info.name, field(info, value[info.attribute])]));
}

function field(info, value) {
  if (info.type === "*") {
    return toJson(value);
  }
  return info.multiple ? value.map((item) => simple(info.primitive, item)) : simple(info.primitive, value);
}

function simple(primitive, value) {
  if (primitive === "timestamp" || primitive === "float") {
    return typed(primitive === "float" ? new amqp.Float(value) : new amqp.Timestamp(value));
  }
  if (typeof value === "bigint") {
    return value <= EXACT && value >= -EXACT ? Number(value) : { type: primitive, value: String(value) };
  }
  return primitive in SMALL ? value : toJson(value);
}

/** As `typed` for a composite decoded from `data`, without the nulls and defaults that are not there. */
export function asSent(value, data, position = 0) {
  position = behind(data, position + 1);
  let count = 0;
  if (data[position] === 0xc0) {
    count = data[position + 2];
    position += 3;
  } else if (data[position] === 0xd0) {
    count = uint32(data, position + 5);
    position += 9;
  }
  const sent = {};
  for (const info of value.constructor.FIELDS.slice(0, count)) {
    const held = value[info.attribute];
    if (data[position] !== 0x40) {
      sent[info.name] = isComposite(held) ? asSent(held, data, position) : field(info, held);
    }
    position = behind(data, position);
  }
  return { type: value.constructor.XML_NAME, fields: sent };
}

function isComposite(value) {
  return value !== null && amqp.typeOf(value) === "composite" && hasFields(value.constructor);
}

function uint32(data, position) {
  return new DataView(data.buffer, data.byteOffset).getUint32(position);
}

function behind(data, position) {
  while (data[position] === 0) {
    position = behind(data, position + 1);
  }
  const category = data[position] >> 4;
  if (category < 0xa) {
    return position + 1 + [0, 1, 2, 4, 8, 16][category - 4];
  }
  return category & 1 ? position + 5 + uint32(data, position + 1) : position + 2 + data[position + 1];
}

/** The sections of an encoded message, as they stand there. */
export function sectionsToJson(data) {
  const sections = [];
  for (let position = 0; position < data.length; ) {
    const { value, end } = amqp.decodeValue(data, position);
    sections.push(isComposite(value) ? asSent(value, data, position) : toJson(value));
    position = end;
  }
  return sections;
}

// ---- JSON to values ----

/** The value that a notation stands for. */
export function fromJson(json) {
  if (json === null || typeof json !== "object") {
    return json;
  }
  const kind = CLASSES.get(json.type);
  if (kind !== undefined) {
    return hasFields(kind) ? new kind(fieldsFromJson(kind, json.fields)) : new kind(fromJson(json.value));
  }
  return contentFromJson(json.type, json.value);
}

function contentFromJson(type, value) {
  if (type in SMALL) {
    return new amqp[SMALL[type]](value);
  }
  if (type in LARGE) {
    return new amqp[LARGE[type]](BigInt(value));
  }
  if (type in BITS) {
    return amqp.decodeValue(Uint8Array.of(BITS[type], ...octets(value.slice(2)))).value;
  }
  switch (type) {
    case "long":
      return BigInt(value);
    case "char":
      return new amqp.Char(String.fromCodePoint(value));
    case "uuid":
      return amqp.Uuid.parse(value);
    case "symbol":
      return new amqp.AmqpSymbol(value);
    case "binary":
      return octets(value);
    case "list":
      return value.map(fromJson);
    case "map":
      return new amqp.AmqpMap(value.map(([key, item]) => [fromJson(key), fromJson(item)]));
    case "array":
      return new amqp.AmqpArray(
        value.items.map(fromJson),
        value.element,
        value.descriptor === null ? null : fromJson(value.descriptor),
      );
    case "described":
      return new amqp.Described(fromJson(value.descriptor), fromJson(value.value));
    default:
      return value;
  }
}

function fieldsFromJson(kind, json) {
  const infos = new Map(kind.FIELDS.map((info) => [info.name, info]));
  return Object.fromEntries(
    Object.entries(json).map(([name, item]) => [infos.get(name).attribute, fieldFromJson(infos.get(name), item)]),
  );
}

function fieldFromJson(info, json) {
  if (info.type === "*") {
    return fromJson(json);
  }
  if (info.multiple) {
    return json;
  }
  switch (info.primitive) {
    case "ulong":
    case "long":
    case "timestamp":
      return BigInt(json?.value ?? json);
    case "float":
      return fromJson(json).value;
    default:
      return fromJson(json);
  }
}

const SECTIONS = {
  header: "header",
  "delivery-annotations": "deliveryAnnotations",
  "message-annotations": "messageAnnotations",
  properties: "properties",
  "application-properties": "applicationProperties",
  footer: "footer",
};

/** The message that consists of the sections of a notation. */
export function messageFromJson(json) {
  const parts = {};
  for (const section of json.map(fromJson)) {
    const name = section.constructor.XML_NAME;
    if (name in SECTIONS) {
      parts[SECTIONS[name]] = hasFields(section.constructor) ? section : section.value;
    } else if (name === "amqp-value") {
      parts.body = section;
    } else {
      (parts.body ??= []).push(section);
    }
  }
  return new amqp.Message(parts);
}
