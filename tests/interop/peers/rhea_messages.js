'use strict';

// Messages and outcomes between JSON and rhea; the keys are the fields of tests/interop/results.py.

const crypto = require('node:crypto');
const rhea = require('rhea');

const LONGEST_TEXT = 256;
const PERIOD = 251;
const DATA = 0x75;
const SEQUENCE = 0x76;
const SENDER_MODES = ['unsettled', 'settled', 'mixed'];
const RECEIVER_MODES = ['first', 'second'];
const PROPERTIES = ['to', 'subject', 'reply_to', 'correlation_id', 'content_type', 'group_id'];
const HEADER = ['durable', 'priority', 'ttl', 'first_acquirer', 'delivery_count'];

/** A scenario cannot go on; the arguments are those of PeerError. */
class Fault extends Error {
    constructor(where, condition, description) {
        super(`${where}: ${condition}: ${description}`);
        this.where = where;
        this.condition = condition || null;
        this.description = description || null;
    }
}

// A message that arrives keeps the octets it came in, so that a queue can pass it on as it is.
const decode = rhea.message.decode;
rhea.message.decode = function (octets) {
    const message = decode(octets);
    Object.defineProperty(message, 'octets', { value: Buffer.from(octets) });
    return message;
};

function octets(number, size) {
    const start = number % PERIOD;
    const body = Buffer.allocUnsafe(size);
    for (let i = 0; i < size; i++) body[i] = (start + i) % PERIOD;
    return body;
}

/** Message `number` of the series that `spec` describes. */
function build(spec, number) {
    const message = {};
    if (spec.kind === 'data') {
        const body = spec.text === null ? octets(number, spec.size) : Buffer.from(spec.text);
        message.body = rhea.message.data_section(body);
    } else if (spec.kind === 'value' || spec.kind === 'none') {
        message.body = spec.text;
    } else {
        message.body = rhea.message.sequence_section([number, spec.text]);
    }
    if (spec.message_id !== null) message.message_id = spec.message_id.replace('{}', String(number));
    Object.assign(message, spec.header, spec.properties);
    if (Object.keys(spec.application_properties).length) {
        message.application_properties = spec.application_properties;
    }
    if (Object.keys(spec.message_annotations).length) message.message_annotations = spec.message_annotations;
    return message;
}

/** A value of AMQP as JSON has it; what JSON does not know becomes a string. */
function plain(value) {
    if (value === undefined || value === null) return null;
    if (Buffer.isBuffer(value)) return value.toString('hex');
    if (value instanceof Date) return value.getTime();
    if (Array.isArray(value)) return value.map(plain);
    if (typeof value === 'object') {
        return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
    }
    return ['boolean', 'number', 'string'].includes(typeof value) ? value : String(value);
}

function present(message, names) {
    const found = {};
    for (const name of names) {
        if (message[name] !== undefined && message[name] !== null) found[name] = plain(message[name]);
    }
    return found;
}

function describeBody(body) {
    let kind = 'value';
    let content = Buffer.alloc(0);
    let value = null;
    if (body === undefined || body === null) {
        kind = 'none';
    } else if (body.typecode === DATA) {
        kind = 'data';
        content = body.multiple ? Buffer.concat(body.content) : body.content;
    } else if (body.typecode === SEQUENCE) {
        kind = 'sequence';
        value = plain(body.content);
    } else if (typeof body === 'string' || Buffer.isBuffer(body)) {
        content = Buffer.from(body);
    } else {
        value = plain(body);
    }
    const text = content.toString();
    const isText = content.length <= LONGEST_TEXT && Buffer.from(text).equals(content);
    return {
        kind,
        size: content.length,
        sha256: crypto.createHash('sha256').update(content).digest('hex'),
        text: isText ? text : null,
        value,
    };
}

/** A message that arrived, for the test. */
function describe(message, settled) {
    return {
        body: describeBody(message.body),
        settled,
        header: present(message, HEADER),
        properties: present(message, ['message_id', ...PROPERTIES]),
        application_properties: plain(message.application_properties || {}),
        message_annotations: plain(message.message_annotations || {}),
    };
}

function problem(error) {
    return error ? { condition: error.condition || null, description: error.description || null } : null;
}

/** The delivery state that the other end told, by its name, or null. */
function stateOf(delivery) {
    const state = delivery.remote_state;
    return (state && state.constructor.composite_type) || null;
}

/** Whether the other end told a terminal outcome of a delivery, or settled it. */
function isDecided(delivery) {
    return Boolean(delivery.remote_settled) || !['received', null].includes(stateOf(delivery));
}

/** What the other end said of a delivery. */
function outcomeOf(delivery) {
    const name = stateOf(delivery);
    const state = delivery.remote_state;
    return {
        name,
        settled: Boolean(delivery.remote_settled),
        error: name === 'rejected' ? problem(state.error) : null,
        delivery_failed: name === 'modified' && Boolean(state.delivery_failed),
        undeliverable_here: name === 'modified' && Boolean(state.undeliverable_here),
        message_annotations: name === 'modified' ? plain(state.message_annotations || {}) : {},
    };
}

/** Tell the sender of a delivery the outcome that `answer` describes; settles it as the link's mode says. */
function give(delivery, answer) {
    if (answer.name === 'accepted') {
        delivery.accept();
    } else if (answer.name === 'rejected') {
        delivery.reject(answer.error || undefined);
    } else if (answer.name === 'released') {
        delivery.release();
    } else {
        const modified = {
            delivery_failed: answer.delivery_failed,
            undeliverable_here: answer.undeliverable_here,
        };
        if (Object.keys(answer.message_annotations).length) {
            modified.message_annotations = answer.message_annotations;
        }
        delivery.modified(modified);
    }
}

/** The source or target of the other end's attach, or null where rhea has a typed null: absent or unknown. */
function terminusOf(link, name) {
    const terminus = link[name];
    return terminus && 'address' in Object(terminus) ? terminus : null;
}

/** What the other end's attach said. */
function attached(link) {
    const { snd_settle_mode, rcv_settle_mode, max_message_size } = link;
    const source = terminusOf(link, 'source');
    const target = terminusOf(link, 'target');
    return {
        snd_settle_mode:
            SENDER_MODES[snd_settle_mode === undefined || snd_settle_mode === null ? 2 : snd_settle_mode],
        rcv_settle_mode: RECEIVER_MODES[rcv_settle_mode || 0],
        source: (source && plain(source.address)) || null,
        target: (target && plain(target.address)) || null,
        max_message_size: max_message_size ? Number(max_message_size) : null,
        filters: Object.keys((source && source.filter) || {}).sort(),
    };
}

function list(value) {
    if (value === undefined || value === null) return [];
    return Array.isArray(value) ? value.map(String) : [String(value)];
}

/** What the other end's open said, and how it was authenticated. */
function opened(connection) {
    const sasl =
        connection.sasl_transport && (connection.sasl_transport.selected || connection.sasl_transport);
    const mechanism = sasl && sasl.mechanism ? sasl.mechanism.constructor.name : '';
    return {
        container_id: connection.container_id || null,
        hostname: connection.hostname || null,
        max_frame_size: connection.max_frame_size || null,
        channel_max: connection.channel_max === undefined ? null : connection.channel_max,
        idle_time_out: connection.idle_time_out || null,
        offered_capabilities: list(connection.offered_capabilities),
        desired_capabilities: list(connection.desired_capabilities),
        properties: plain(connection.properties || {}),
        mechanism: mechanism.replace(/(Server|Client)$/, '').toUpperCase() || null,
        user: (connection.is_server && sasl && sasl.username) || null,
    };
}

module.exports = {
    Fault,
    RECEIVER_MODES,
    SENDER_MODES,
    attached,
    build,
    describe,
    give,
    isDecided,
    opened,
    outcomeOf,
    problem,
    stateOf,
    terminusOf,
};
