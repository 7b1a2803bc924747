'use strict';

// A rhea container that listens, with a queue in memory for each address that anybody names. It does what
// proton_server.py does, see there, but for transactions: rhea does not know what a coordinator is, so every
// target that is not a plain one is refused.

const fs = require('node:fs');
const rhea = require('rhea');
const { WebSocketServer } = require('ws');

const { build, describe, give, opened, terminusOf } = require('./rhea_messages.js');
const { Player } = require('./rhea_player.js');
const { Outlet, Queue } = require('./rhea_queue.js');

const HOST = '127.0.0.1';
const WINDOW = 100;

class Server extends Player {
    constructor() {
        super();
        this.connections = new Set();
        this.links = new Set();
        this.queues = new Map();
        this.serials = 0;
    }

    serial() {
        return this.serials++;
    }

    queue(address) {
        if (!this.queues.has(address)) this.queues.set(address, new Queue(this, address));
        return this.queues.get(address);
    }

    // --- scenarios -----------------------------------------------------------------------------------------

    async listen({ scheme, tls, asks_certificate, users, idle_time_out, max_frame_size }) {
        const container = rhea.create_container({ id: 'rhea-server' });
        this.listenTo(container);
        const options = {
            host: HOST,
            port: 0,
            container_id: 'rhea-server',
            tcp_no_delay: true,
            sender_options: { autosettle: false, treat_modified_as_released: false },
            receiver_options: { credit_window: 0, autoaccept: false, autosettle: false },
        };
        if (idle_time_out !== null) options.idle_time_out = idle_time_out;
        if (max_frame_size !== null) options.max_frame_size = max_frame_size;
        if (users !== null) {
            container.sasl_server_mechanisms.enable_plain((user, password) => users[user] === password);
            options.require_sasl = true;
        }
        if (tls !== null) Object.assign(options, secured(tls, asks_certificate));
        let listener;
        if (scheme === 'amqp+ws') {
            listener = new WebSocketServer({
                host: HOST,
                port: 0,
                handleProtocols: (offered) => offered.has('amqp') && 'amqp',
            });
            listener.on('connection', (socket) => container.websocket_accept(socket, options));
        } else {
            listener = container.listen(options);
        }
        await this.until(
            () => listener.address(),
            'the listening socket',
            () => listener.once('listening', () => this.changed()),
        );
        return { port: listener.address().port };
    }

    async clients() {
        return [...this.connections].map(opened);
    }

    async put({ address, count, message }) {
        for (let number = 0; number < count; number++) {
            this.queue(address).store(rhea.message.encode(build(message, number)), false);
        }
    }

    async depth({ address }) {
        return this.queue(address).messages.length;
    }

    async take({ address, count }) {
        const queue = this.queue(address);
        await this.until(() => queue.messages.length >= count, `${count} messages at ${address}`);
        const taken = queue.messages.splice(0, count);
        return taken.map((stored) => describe(rhea.message.decode(stored.octets), stored.settled));
    }

    async answer({ address, answer }) {
        this.queue(address).answer = answer;
    }

    async refuse({ address, condition, description }) {
        this.queue(address).refusal = { condition, description };
    }

    async echo({ address }) {
        this.queue(address).isEcho = true;
    }

    async told({ address, count }) {
        const queue = this.queue(address);
        await this.until(() => queue.told.length >= count, `${count} outcomes at ${address}`);
        return queue.told;
    }

    async settle({ address }) {
        const queue = this.queue(address);
        await this.until(() => !queue.unsettled, `the settlement of all at ${address}`);
    }

    async detach({ address, condition, description }) {
        const links = this.linksAt(address);
        for (const link of links) link.close({ condition, description });
        await this.until(() => !links.some((link) => this.links.has(link)), 'the detach of the clients');
    }

    async end({ address, condition, description }) {
        const links = this.linksAt(address);
        for (const session of new Set(links.map((link) => link.session)))
            session.close({ condition, description });
        await this.until(() => !links.some((link) => this.links.has(link)), 'the end of the sessions');
    }

    async disconnect({ condition, description }) {
        for (const connection of this.connections) connection.close({ condition, description });
        await this.until(() => !this.connections.size, 'the close of the clients');
    }

    linksAt(address) {
        return [...this.links].filter((link) => link.queue.address === address);
    }

    // --- events --------------------------------------------------------------------------------------------

    listenTo(container) {
        container.on('connection_open', ({ connection }) => {
            this.connections.add(connection);
        });
        container.on('receiver_open', ({ receiver }) => this.openReceiver(receiver));
        container.on('sender_open', ({ sender }) => this.openSender(sender));
        container.on('sender_flow', ({ sender }) => sender.queue && sender.queue.flush());
        container.on('sendable', ({ sender }) => sender.queue && sender.queue.flush());
        container.on('message', ({ receiver, message, delivery }) =>
            this.receive(receiver, message, delivery),
        );
        for (const name of ['accepted', 'rejected', 'released', 'modified', 'settled']) {
            container.on(name, ({ sender, delivery }) => {
                if (sender) sender.queue.finish(sender.outlet, delivery);
                else this.settledBySender(delivery);
            });
        }
        for (const name of ['sender_error', 'receiver_error', 'session_error', 'connection_error'])
            container.on(name, () => {});
        container.on('sender_close', ({ sender }) => this.forget((link) => link === sender));
        container.on('receiver_close', ({ receiver }) => this.forget((link) => link === receiver));
        container.on('session_close', ({ session }) => this.forget((link) => link.session === session));
        for (const name of ['connection_close', 'disconnected']) {
            container.on(name, ({ connection }) => {
                this.connections.delete(connection);
                this.forget((link) => link.connection === connection);
            });
        }
        for (const name of ['protocol_error', 'error'])
            container.on(name, (error) => console.error(name, error));
    }

    /** Answer a client that receives. */
    openSender(link) {
        const source = terminusOf(link, 'source');
        const target = terminusOf(link, 'target');
        const address = source && (source.dynamic ? `dynamic-${this.serial()}` : source.address);
        if (!address) {
            link.close({ condition: 'amqp:invalid-field', description: 'a source needs an address here' });
            return;
        }
        if (this.isRefused(link, address)) return;
        const { dynamic, distribution_mode } = source;
        link.set_source({ address, dynamic, distribution_mode });
        link.set_target({ address: target && target.address });
        link.outlet = new Outlet(link, distribution_mode === 'copy');
        this.accept(link, address);
        link.queue.outlets.push(link.outlet);
    }

    /** Answer a client that sends. */
    openReceiver(link) {
        const source = terminusOf(link, 'source');
        const target = terminusOf(link, 'target');
        if (target === null) {
            link.close({
                condition: 'amqp:not-implemented',
                description: 'this container has no transactions',
            });
            return;
        }
        const address = target.dynamic ? `dynamic-${this.serial()}` : target.address;
        if (this.isRefused(link, address || '')) return;
        link.set_target({ address, dynamic: target.dynamic });
        link.set_source({ address: source && source.address });
        this.accept(link, address || '');
        link.add_credit(WINDOW);
    }

    isRefused(link, address) {
        const { refusal } = this.queue(address);
        if (refusal !== null) link.close(refusal);
        return refusal !== null;
    }

    accept(link, address) {
        link.queue = this.queue(address);
        for (const mode of ['snd_settle_mode', 'rcv_settle_mode']) link.local.attach[mode] = link[mode];
        this.links.add(link);
    }

    receive(link, message, delivery) {
        link.add_credit(1);
        const queue = link.queue.address ? link.queue : this.queue(message.to);
        const isSettled = Boolean(delivery.remote_settled);
        if (isSettled) delivery.update(true);
        else if (queue.answer.name !== 'none') give(delivery, queue.answer);
        if (!delivery.settled) {
            delivery.queue = queue;
            queue.unsettled++;
        }
        if (isSettled || queue.answer.name === 'accepted') this.keep(queue, message, isSettled);
    }

    keep(queue, message, isSettled) {
        if (queue.isEcho) {
            const { reply_to, correlation_id, message_id } = message;
            Object.assign(message, { to: reply_to, correlation_id: correlation_id || message_id });
            this.queue(reply_to).store(rhea.message.encode(message), isSettled);
        } else {
            queue.store(message.octets, isSettled);
        }
    }

    settledBySender(delivery) {
        if (delivery.queue && !delivery.settled) {
            delivery.settled = true;
            delivery.queue.unsettled--;
            this.changed();
        }
    }

    forget(isGone) {
        for (const link of [...this.links].filter(isGone)) {
            this.links.delete(link);
            // rhea tells of a detach before it tells of the outcomes that came with it.
            if (link.outlet) setImmediate(() => link.queue.drop(link.outlet));
        }
        this.changed();
    }
}

function secured(tls, asksCertificate) {
    return {
        transport: 'tls',
        ca: [fs.readFileSync(tls.authority)],
        cert: fs.readFileSync(tls.certificate),
        key: fs.readFileSync(tls.key),
        requestCert: asksCertificate,
        rejectUnauthorized: asksCertificate,
        enable_sasl_external: asksCertificate,
    };
}

module.exports = { Server };
