// rhea as a worker: one job after the other from standard input, each and each answer a line of JSON.
// The roles, the fields of a job and of an answer are those of work.py.
'use strict';

const { Duplex } = require('stream');
const readline = require('readline');

let rhea;

const WINDOW = 500;

function bodiesOf(job) {
    const filler = Buffer.alloc(job.size - 8);
    for (let index = 0; index < filler.length; index++) filler[index] = index % 251;
    return Array.from({ length: job.count }, (_, number) => {
        const head = Buffer.alloc(8);
        head.writeBigUInt64BE(BigInt(number));
        return Buffer.concat([head, filler]);
    });
}

// Wall clock and processor time of this process, in nanoseconds.
class Meter {
    constructor() {
        this.cpu = process.cpuUsage();
        this.begin = process.hrtime.bigint();
    }

    stop() {
        const end = process.hrtime.bigint();
        const { user, system } = process.cpuUsage(this.cpu);
        return { begin: Number(this.begin), end: Number(end), cpu: (user + system) * 1000 };
    }
}

// Holds what arrives against the bodies that have to arrive.
class Inbox {
    constructor(job) {
        this.expected = bodiesOf(job);
        this.count = 0;
    }

    get isFull() {
        return this.count === this.expected.length;
    }

    take(message) {
        const body = message.body.content;
        if (this.isFull || !body.equals(this.expected[this.count])) {
            throw new Error(`message ${this.count} has the body ${body.subarray(0, 16).toString('hex')}...`);
        }
        this.count += 1;
    }
}

// A container whose failures end the job. Without TCP_NODELAY a lone message would wait 40 ms for company.
function containerFor(reject) {
    const container = rhea.create_container({ tcp_no_delay: true, credit_window: WINDOW });
    const failed = (context) => reject(new Error(String(context.error || context.message || context)));
    for (const event of ['error', 'disconnected', 'connection_error', 'session_error', 'sender_error',
        'receiver_error', 'rejected', 'released', 'modified']) {
        container.on(event, failed);
    }
    return container;
}

function connect(container, job) {
    return container.connect({ host: '127.0.0.1', port: job.port, reconnect: false, username: 'anonymous' });
}

function modes(job) {
    return { snd_settle_mode: job.settled ? 1 : 0, rcv_settle_mode: 0 };
}

function listen(container, answer) {
    const server = container.listen({ host: '127.0.0.1', port: 0 });
    server.on('listening', () => answer({ port: server.address().port }));
    container.on('connection_open', () => server.close());
}

// Takes all messages in; calls `finish` with the measurement.
function takeIn(container, job, finish) {
    let meter, inbox;
    container.on('receiver_open', () => {
        inbox = new Inbox(job);
        meter = new Meter();
    });
    container.on('message', (context) => {
        inbox.take(context.message);
        if (inbox.isFull) finish(meter.stop(), context);
    });
}

// Sends all messages, as fast as credit and window allow, then closes; calls `finish` with the measurement.
function sendAll(container, job, finish) {
    const bodies = bodiesOf(job);
    let sent = 0, settled = 0, meter;
    const fill = (sender) => {
        // The library counts credit down when it writes, so what waits to be written has to be counted here.
        const credit = sender.delivery_count + sender.credit;
        const bound = Math.min(bodies.length, credit, job.settled ? Infinity : settled + WINDOW);
        while (sent < bound && sender.sendable()) {
            sender.send({ body: rhea.message.data_section(bodies[sent++]) });
        }
        if ((job.settled ? sent : settled) === bodies.length) closeWhenWritten(sender);
    };
    const closeWhenWritten = (sender) => {
        if (sender.delivery_count === bodies.length) sender.connection.close();
        else setImmediate(closeWhenWritten, sender);
    };
    container.on('sender_open', () => { meter = new Meter(); });
    container.on('sendable', (context) => fill(context.sender));
    container.on('settled', (context) => {
        settled += 1;
        fill(context.sender);
    });
    container.on('connection_close', () => finish(meter.stop()));
}

const ROLES = {
    accept: (job, answer) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        let result;
        takeIn(container, job, (found) => { result = found; });
        container.on('connection_close', () => resolve(result));
        listen(container, answer);
    }),

    listen: (job, answer) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        container.on('connection_close', () => resolve({}));
        listen(container, answer);
    }),

    send: (job) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        sendAll(container, job, resolve);
        connect(container, job).open_sender({ target: job.address, ...modes(job) });
    }),

    fetch: (job) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        let result;
        takeIn(container, job, (found, context) => {
            result = found;
            context.connection.close();
        });
        container.on('connection_close', () => resolve(result));
        connect(container, job).open_receiver({ source: job.address, ...modes(job) });
    }),

    'round trips': (job) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        const bodies = bodiesOf(job);
        const micros = [];
        let begin;
        const send = (sender) => {
            begin = process.hrtime.bigint();
            sender.send({ body: rhea.message.data_section(bodies[micros.length]) });
        };
        container.once('sendable', (context) => send(context.sender));
        container.on('accepted', (context) => {
            micros.push(Number(process.hrtime.bigint() - begin) / 1000);
            if (micros.length < bodies.length) send(context.sender);
            else context.connection.close();
        });
        container.on('connection_close', () => resolve({ micros }));
        connect(container, job).open_sender({ target: job.address, ...modes(job) });
    }),

    links: (job) => new Promise((resolve, reject) => {
        const container = containerFor(reject);
        const connection = connect(container, job);
        let opened = 0, before;
        const openLinks = () => {
            for (let number = 0; number < job.count; number++) connection.open_sender(job.address);
        };
        container.on('sender_open', () => {
            opened += 1;
            if (opened % job.count) return;
            gc();
            if (opened === job.count) {
                before = process.memoryUsage.rss();
                openLinks();
            } else {
                resolve({ before, after: process.memoryUsage.rss() });
                connection.close();
            }
        });
        openLinks();
    }),

    // Two connections joined by a pair of streams in memory, the nearest that rhea has to engines without sockets.
    joined: (job) => new Promise((resolve, reject) => {
        const [ours, theirs] = pair();
        const server = containerFor(reject);
        const client = containerFor(reject);
        let isFull = false;
        takeIn(server, job, () => { isFull = true; });
        sendAll(client, job, (found) => isFull ? resolve(found) : reject(new Error('messages are missing')));
        server.create_connection({ reconnect: false }).accept(theirs);
        const connection = client.connect({
            reconnect: false,
            connection_details: () => ({ connect: (port, host, options, done) => { setImmediate(done); return ours; } }),
        });
        connection.open_sender({ target: job.address, ...modes(job) });
    }),
};

// Two streams, each of which reads what is written to the other: a moment later, as from a socket.
function pair() {
    const ends = [];
    const end = (other) => new Duplex({
        read() {},
        write(chunk, encoding, done) {
            setImmediate(() => {
                ends[other].push(chunk);
                done();
            });
        },
        writev(chunks, done) {
            this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), null, done);
        },
        final(done) {
            ends[other].push(null);
            done();
        },
    });
    ends.push(end(1), end(0));
    return ends;
}

function answer(content) {
    process.stdout.write(JSON.stringify(content) + '\n');
}

async function main() {
    try {
        rhea = require('rhea');
    } catch {
        answer({ missing: 'Node finds no module rhea' });
        return;
    }
    answer({ label: `rhea ${require('rhea/package.json').version}`, roles: Object.keys(ROLES) });
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const job = JSON.parse(line);
        try {
            answer(await ROLES[job.role](job, answer));
        } catch (error) {
            answer({ error: String(error) });
        }
    }
}

main();
