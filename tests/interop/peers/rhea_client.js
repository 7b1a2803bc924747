'use strict';

// The scenarios that a rhea client plays; what they are to do is said in tests/interop/handles.py.

const rhea = require('rhea');

const { Inbox } = require('./rhea_boxes.js');
const { ClientConnection, PLAIN_MESSAGE } = require('./rhea_connection.js');
const { Fault, attached } = require('./rhea_messages.js');

const SELECTOR = 'apache.org:selector-filter:string';

/** One connection at a time; each scenario on a session of its own. */
class Client extends ClientConnection {
    async send({ address, count, message, mode, receiver_mode, name, dynamic, leave }) {
        return this.onSession(async (session) => {
            const link = this.sender(session, address, mode, receiver_mode, name, dynamic);
            await this.attach(link);
            const { outcomes } = await this.sendAll(link, message, count, mode);
            const result = { outcomes, attached: attached(link) };
            await this.leave(link, leave);
            return result;
        }, leave);
    }

    async receive(request) {
        const { address, count, credit, answer, mode, receiver_mode, copy, selector } = request;
        const { name, subscription, leave } = request;
        const source = subscription ? { durable: 2, expiry_policy: 'never' } : {};
        if (copy) source.distribution_mode = 'copy';
        if (selector !== null) {
            source.filter = { selector: rhea.types.wrap_described(selector, SELECTOR) };
        }
        return this.onSession(async (session) => {
            const link = this.receiver(session, address, mode, receiver_mode, source, name);
            const inbox = (link.inbox = new Inbox(link, count, credit, answer));
            await this.attach(link);
            inbox.grant();
            await this.wait(
                () => inbox.messages.length === count,
                `${count} messages from ${address}`,
                link,
                session,
            );
            await this.wait(() => !inbox.unsettled, 'the settlement of the sender', link, session);
            const result = inbox.result();
            await this.leave(link, leave);
            return result;
        }, leave);
    }

    async drain({ address, credit }) {
        return this.onSession(async (session) => {
            const link = this.receiver(session, address, 'mixed', 'first');
            const inbox = (link.inbox = new Inbox(link, 0, 0));
            await this.attach(link);
            link.add_credit(credit);
            link.drain_credit();
            await this.wait(() => !link.credit, `the end of the credit on ${address}`, link, session);
            const result = inbox.result();
            await this.detach(link);
            return result;
        });
    }

    async dynamic({ count, policy, takes }) {
        const source = {};
        if (policy !== null) {
            source.dynamic_node_properties = { 'lifetime-policy': rhea.types.wrap_described([], policy) };
        }
        return this.toDynamic(count, (address) => [address, PLAIN_MESSAGE], source, takes);
    }

    async request({ address, count, message }) {
        return this.toDynamic(count, (reply_to) => [address, { ...message, properties: { reply_to } }]);
    }

    /**
     * Attach to a dynamic source, send what `what` says of its address, and wait for as many, or for those that
     * it `takes`.
     */
    async toDynamic(count, what, source = {}, takes = count) {
        return this.onSession(async (session) => {
            const receiver = this.receiver(session, null, 'mixed', 'first', source);
            const inbox = (receiver.inbox = new Inbox(receiver, takes, takes));
            await this.attach(receiver);
            const { address } = receiver.source;
            inbox.grant();
            const [target, spec] = what(address);
            const sender = await this.attach(this.sender(session, target, 'unsettled', 'first'));
            await this.sendAll(sender, spec, count, 'unsettled');
            await this.wait(
                () => inbox.messages.length === takes,
                `${takes} messages to ${address}`,
                receiver,
                session,
            );
            await this.detach(sender, receiver);
            return { address, messages: inbox.described() };
        });
    }

    async respond({ address, count }) {
        return this.onSession(async (session) => {
            const receiver = this.receiver(session, address, 'mixed', 'first');
            const inbox = (receiver.inbox = new Inbox(receiver, count, count));
            await this.attach(receiver);
            inbox.grant();
            const senders = new Map();
            for (let number = 0; number < count; number++) {
                await this.wait(
                    () => inbox.messages.length > number,
                    `request ${number} from ${address}`,
                    receiver,
                    session,
                );
                const { body, reply_to, correlation_id, message_id } = inbox.messages[number];
                if (!senders.has(reply_to)) {
                    senders.set(
                        reply_to,
                        await this.attach(this.sender(session, reply_to, 'unsettled', 'first')),
                    );
                }
                const sender = senders.get(reply_to);
                await this.credit(sender, 'credit to reply');
                this.postMessage(sender, { body, correlation_id: correlation_id || message_id });
            }
            for (const sender of senders.values()) {
                await this.wait(() => !sender.outbox.pending, 'the outcome of a reply', sender, session);
            }
            await this.detach(...senders.values(), receiver);
            return inbox.described();
        });
    }

    async both({ address, name }) {
        return this.onSession(async (session) => {
            const sender = await this.attach(this.sender(session, address, 'unsettled', 'first', name));
            const receiver = this.receiver(session, address, 'mixed', 'first', {}, name);
            const inbox = (receiver.inbox = new Inbox(receiver, 1, 1));
            await this.attach(receiver);
            await this.sendAll(sender, PLAIN_MESSAGE, 1, 'unsettled');
            inbox.grant();
            await this.wait(() => inbox.messages.length > 0, 'the message', receiver, session);
            await this.detach(sender, receiver);
            return inbox.described()[0];
        });
    }

    async stream() {
        throw new Fault('unsupported', null, 'rhea has messages only as a whole');
    }

    async read_stream() {
        throw new Fault('unsupported', null, 'rhea has messages only as a whole');
    }

    async connections({ url, address, count }) {
        const opening = { url, mechanism: 'ANONYMOUS', tls: null, idle_time_out: null, max_frame_size: null };
        const one = { address, count: 1, message: PLAIN_MESSAGE, mode: 'unsettled', receiver_mode: 'first' };
        const clients = Array.from({ length: count }, () => new Client());
        const opened = await Promise.all(
            clients.map((each, number) => each.connect({ ...opening, container_id: `many-${number}` })),
        );
        const sent = await Promise.all(clients.map((each) => each.send({ ...one, leave: 'close' })));
        await Promise.all(clients.map((each) => each.close()));
        const accepted = sent.filter(({ outcomes }) => outcomes[0].name === 'accepted').length;
        return { opened: opened.length, accepted, closed: clients.length, error: null };
    }

    async cut() {
        const { socket } = this.connection;
        this.fault = new Fault('transport', null, 'the client has cut the connection');
        await new Promise((resolve) => {
            socket.once('close', resolve);
            socket.destroy();
        });
    }

    async links({ address, count }) {
        return this.onSession(async (session) => {
            const many = { opened: 0, accepted: 0, closed: 0, error: null };
            const links = [];
            for (let i = 0; i < count; i++) {
                const link = this.sender(session, address, 'unsettled', 'first');
                link.many = many;
                links.push(link);
            }
            await this.wait(() => many.opened + many.closed >= count, `${count} attaches`, session);
            await this.wait(() => many.accepted + many.closed >= count, `${count} outcomes`, session);
            for (const link of links) link.close();
            await this.wait(() => many.closed >= count, `${count} detaches`, session);
            return many;
        });
    }

    async idle({ for_seconds }) {
        const { socket } = this.connection;
        const before = [socket.bytesRead, socket.bytesWritten];
        let isTimeUp = false;
        let error = null;
        const timer = setTimeout(() => {
            isTimeUp = true;
            this.changed();
        }, 1000 * for_seconds);
        try {
            await this.wait(() => isTimeUp, 'the end of the idle time');
        } catch (fault) {
            if (!(fault instanceof Fault) || fault.where === 'deadline') throw fault;
            error = { condition: fault.condition, description: fault.description };
        } finally {
            clearTimeout(timer);
        }
        return {
            is_open: error === null,
            octets_in: socket.bytesRead - before[0],
            octets_out: socket.bytesWritten - before[1],
            error,
        };
    }

    async transaction() {
        throw new Fault('unsupported', null, 'rhea has no transactions');
    }
}

module.exports = { Client };
