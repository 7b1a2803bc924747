'use strict';

// One connection of a rhea client: how it is opened, how a scenario waits on it, how links are attached.

const fs = require('node:fs');
const rhea = require('rhea');
const WebSocket = require('ws');

const { Outbox } = require('./rhea_boxes.js');
const {
    Fault,
    RECEIVER_MODES,
    SENDER_MODES,
    build,
    opened,
    problem,
    stateOf,
    terminusOf,
} = require('./rhea_messages.js');
const { Player } = require('./rhea_player.js');

const PLAIN_MESSAGE = {
    size: 100,
    text: null,
    kind: 'data',
    message_id: 'm-{}',
    header: {},
    properties: {},
    application_properties: {},
    message_annotations: {},
};

class ClientConnection extends Player {
    constructor() {
        super();
        this.connection = null;
        this.names = 0;
    }

    // --- the connection ------------------------------------------------------------------------------------

    async connect(request) {
        const { url, mechanism, user, password, tls, container_id, hostname, idle_time_out, max_frame_size } =
            request;
        const { protocol, hostname: host, port } = new URL(url);
        const options = {
            host,
            port,
            hostname: hostname || host,
            container_id,
            reconnect: false,
            tcp_no_delay: true,
        };
        if (idle_time_out !== null) options.idle_time_out = idle_time_out;
        if (max_frame_size !== null) options.max_frame_size = max_frame_size;
        if (mechanism === 'ANONYMOUS') options.username = 'anonymous';
        if (mechanism === 'PLAIN') Object.assign(options, { username: user, password });
        if (mechanism === 'EXTERNAL') options.enable_sasl_external = true;
        if (tls !== null) Object.assign(options, secured(tls, host));
        const container = rhea.create_container({ id: container_id });
        if (protocol === 'amqp+ws:') {
            const connectTo = container.websocket_connect(WebSocket);
            options.connection_details = connectTo(url.replace('amqp+ws', 'ws'), ['amqp'], {});
        }
        if (this.connection !== null && this.connection.socket.destroy) this.connection.socket.destroy();
        this.listenTo(container);
        this.fault = null;
        this.isClosed = false;
        this.connection = container.connect(options);
        await this.wait(() => this.connection.is_remote_open(), 'the open of the server');
        return opened(this.connection);
    }

    async close() {
        if (this.connection === null) throw new Fault('transport', null, 'the client is not connected');
        if (this.fault !== null) throw this.fault;
        this.connection.close();
        await this.wait(() => this.isClosed, 'the close of the server');
    }

    listenTo(container) {
        const on = (names, handler) => {
            for (const name of names) {
                container.on(name, (context) => {
                    handler(context);
                    this.changed();
                });
            }
        };
        on(
            [
                'connection_open',
                'session_open',
                'sender_flow',
                'sendable',
                'receiver_flow',
                'receiver_drained',
            ],
            () => {},
        );
        on(['receiver_open'], () => {});
        on(['sender_open'], ({ sender }) => {
            if (sender.many && !isRefused(sender)) sender.many.opened++;
        });
        on(['sendable'], ({ sender }) => {
            if (sender.many && !sender.outbox.outcomes.length)
                this.post(sender, PLAIN_MESSAGE, 0, 'unsettled');
        });
        on(['message'], ({ receiver, message, delivery }) => receiver.inbox.take(message, delivery));
        on(['accepted', 'rejected', 'released', 'modified', 'settled'], ({ sender, receiver, delivery }) => {
            if (receiver) {
                receiver.inbox.settle();
            } else {
                sender.outbox.told(delivery);
                if (
                    sender.many &&
                    stateOf(delivery) === 'accepted' &&
                    delivery.isTold &&
                    !delivery.isCounted
                ) {
                    delivery.isCounted = true;
                    sender.many.accepted++;
                }
            }
        });
        on(['sender_error', 'receiver_error'], () => {});
        on(['sender_close', 'receiver_close'], ({ sender, receiver }) => {
            const link = sender || receiver;
            link.isGone = true;
            if (link.many) {
                link.many.closed++;
                link.many.error = link.many.error || problem(link.error);
            }
        });
        on(['session_error'], () => {});
        on(['session_close'], ({ session }) => {
            session.isGone = true;
        });
        on(['connection_error'], ({ connection, error }) => {
            const where = connection.transport_error ? 'transport' : 'connection';
            this.fault = this.fault || new Fault(where, error.condition, error.description || error.message);
        });
        on(['connection_close'], ({ connection }) => {
            this.isClosed = true;
            if (connection.is_remote_open() || connection.state.local_open) {
                this.fault = this.fault || new Fault('connection', null, 'ended without an error');
            }
        });
        on(['disconnected', 'protocol_error', 'error'], (what) => {
            const error = what.error || (what instanceof Error ? what : null);
            this.fault =
                this.fault ||
                new Fault(
                    'transport',
                    error && error.condition,
                    error ? error.message : 'the connection was lost',
                );
        });
    }

    // --- waiting -------------------------------------------------------------------------------------------

    async wait(done, waitsFor, ...watched) {
        await this.until(done, waitsFor, () => {
            if (this.fault !== null) throw this.fault;
            for (const endpoint of watched) {
                if (endpoint.isGone) throw faultOf(endpoint);
            }
        });
    }

    /**
     * Play a scenario on a session of its own; after a fault its end is not waited for. The session is left as
     * it is if that is how the scenario is to be left.
     */
    async onSession(scenario, leave = 'close') {
        if (this.connection === null) throw new Fault('transport', null, 'the client is not connected');
        if (this.fault !== null) throw this.fault;
        const session = this.connection.create_session();
        session.begin();
        try {
            const result = await scenario(session);
            if (leave === 'stay') return result;
            session.close();
            await this.wait(() => session.isGone, 'the end of the session');
            return result;
        } catch (error) {
            session.close();
            throw error;
        }
    }

    async attach(link) {
        await this.wait(
            () => link.is_remote_open() && !isRefused(link),
            `an attach that answers link ${link.name}`,
            link,
            link.session,
        );
        return link;
    }

    /** Close a link, detach it, or leave it as it is. */
    async leave(link, leave) {
        if (leave === 'close') {
            await this.detach(link);
        } else if (leave === 'detach') {
            link.detach();
            await this.wait(() => link.isGone, `the detach of link ${link.name}`, link.session);
        }
    }

    async detach(...links) {
        for (const link of links) {
            link.close();
            await this.wait(() => link.isGone, `the detach of link ${link.name}`, link.session);
        }
    }

    sender(session, address, mode, receiverMode, name = null, dynamic = false) {
        const link = session.attach_sender({
            name: name || `sender-${++this.names}`,
            source: {},
            target: address === null ? { dynamic } : { address },
            snd_settle_mode: SENDER_MODES.indexOf(mode),
            rcv_settle_mode: RECEIVER_MODES.indexOf(receiverMode),
            treat_modified_as_released: false,
        });
        link.outbox = new Outbox();
        return link;
    }

    receiver(session, address, mode, receiverMode, source = {}, name = null) {
        return session.attach_receiver({
            name: name || `receiver-${++this.names}`,
            source: address === null ? { dynamic: true, ...source } : { address, ...source },
            target: {},
            snd_settle_mode: SENDER_MODES.indexOf(mode),
            rcv_settle_mode: RECEIVER_MODES.indexOf(receiverMode),
            credit_window: 0,
            autoaccept: false,
        });
    }

    post(link, spec, number, mode) {
        this.postMessage(
            link,
            build(spec, number),
            mode === 'settled' || (mode === 'mixed' && number % 2 === 1),
        );
    }

    postMessage(link, message, settled = false) {
        link.outbox.sent(link.send(message), settled);
    }

    /** Wait until nothing that was posted waits to be sent, and there is credit and room for one more. */
    async credit(link, waitsFor) {
        await this.wait(() => !queued(link.session) && link.sendable(), waitsFor, link, link.session);
    }

    async sendAll(link, spec, count, mode) {
        let number = 0;
        while (number < count) {
            await this.credit(link, `credit for message ${number}`);
            const room = Math.min(link.credit, link.session.outgoing.available(), count - number);
            for (let i = 0; i < room; i++) this.post(link, spec, number++, mode);
            await this.turn();
        }
        await this.wait(
            () => !link.outbox.pending && !queued(link.session),
            `the outcomes of ${count} messages`,
            link,
            link.session,
        );
        return link.outbox;
    }

    /** Let rhea write what it was given. */
    async turn() {
        await new Promise((resolve) => setImmediate(resolve));
    }
}

function secured(tls, host) {
    const options = {
        transport: 'tls',
        servername: host,
        ca: [fs.readFileSync(tls.authority)],
        rejectUnauthorized: true,
    };
    if (tls.certificate) {
        options.cert = fs.readFileSync(tls.certificate);
        options.key = fs.readFileSync(tls.key);
    }
    return options;
}

/** An attach without the terminus that we asked for comes before a detach. */
function isRefused(link) {
    return terminusOf(link, link.is_sender() ? 'target' : 'source') === null;
}

/** How many messages of a session wait to be sent. */
function queued(session) {
    return session.outgoing.next_delivery_id - session.outgoing.next_pending_delivery;
}

function faultOf(endpoint) {
    const where = endpoint.is_sender ? 'link' : 'session';
    const { error } = endpoint;
    return error
        ? new Fault(where, error.condition, error.description)
        : new Fault(where, null, 'ended without an error');
}

module.exports = { ClientConnection, PLAIN_MESSAGE, queued };
