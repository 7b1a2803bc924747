'use strict';

// What an address of the rhea server stands for: messages as they came, and the links they leave by.

const rhea = require('rhea');

const { isDecided, outcomeOf } = require('./rhea_messages.js');

const ACCEPT = { name: 'accepted' };
const SETTLED = 1;

/** A sending link and what is unsettled on it. */
class Outlet {
    constructor(link, copies) {
        this.link = link;
        this.copies = copies;
        this.seen = -1;
        this.posted = [];
        this.unsettled = new Map();
    }

    /** The credit that is left, less what waits to be sent: rhea stops a session that is given more. */
    room() {
        const { outgoing } = this.link.session;
        this.posted = this.posted.filter((id) => id >= outgoing.next_pending_delivery);
        return Math.min(this.link.credit - this.posted.length, outgoing.available());
    }
}

/** What an address stands for, and how it is told to behave. */
class Queue {
    constructor(server, address) {
        this.server = server;
        this.address = address;
        this.messages = [];
        this.outlets = [];
        this.answer = ACCEPT;
        this.refusal = null;
        this.isEcho = false;
        this.told = [];
        this.unsettled = 0;
    }

    store(octets, settled) {
        this.messages.push({ octets, settled, serial: this.server.serial() });
        this.flush();
    }

    /** A message was not taken: it goes to the head, and has failed once more if so. */
    giveBack(stored, failed) {
        if (failed) {
            const message = rhea.message.decode(stored.octets);
            message.delivery_count = (message.delivery_count || 0) + 1;
            stored.octets = rhea.message.encode(message);
        }
        this.messages.unshift(stored);
    }

    /** Send what the credit of the links allows, to one after the other; then end the draining. */
    flush() {
        for (let isMoving = true; isMoving;) {
            isMoving = false;
            for (let i = 0; i < this.outlets.length; i++) {
                const outlet = this.outlets.shift();
                this.outlets.push(outlet);
                const stored = outlet.room() > 0 ? this.nextFor(outlet) : undefined;
                if (stored !== undefined) {
                    this.send(outlet, stored);
                    isMoving = true;
                }
            }
        }
        for (const { link } of this.outlets) link.set_drained(true);
        this.server.changed();
    }

    nextFor(outlet) {
        if (!outlet.copies) return this.messages.shift();
        const found = this.messages.find((each) => each.serial > outlet.seen);
        if (found !== undefined) outlet.seen = found.serial;
        return found;
    }

    send(outlet, stored) {
        const delivery = outlet.link.send(stored.octets, undefined, 0);
        outlet.posted.push(delivery.id);
        if (outlet.link.local.attach.snd_settle_mode !== SETTLED) {
            outlet.unsettled.set(delivery.id, stored);
            this.unsettled++;
        }
    }

    /** A receiver told what became of a delivery. */
    finish(outlet, delivery) {
        const stored = outlet.unsettled.get(delivery.id);
        if (stored === undefined || !isDecided(delivery)) return;
        outlet.unsettled.delete(delivery.id);
        const outcome = outcomeOf(delivery);
        if (delivery.remote_settled) delivery.settled = true;
        else delivery.update(true);
        this.unsettled--;
        this.told.push(outcome);
        const isKept =
            ['released', null].includes(outcome.name) ||
            (outcome.name === 'modified' && !outcome.undeliverable_here);
        if (isKept && !outlet.copies) this.giveBack(stored, outcome.delivery_failed);
        this.flush();
    }

    /** A sending link is gone: what was unsettled on it is back in the queue, in its old order. */
    drop(outlet) {
        const place = this.outlets.indexOf(outlet);
        if (place < 0) return;
        this.outlets.splice(place, 1);
        this.unsettled -= outlet.unsettled.size;
        if (!outlet.copies) {
            for (const stored of [...outlet.unsettled.values()].reverse()) this.giveBack(stored, false);
        }
        outlet.unsettled.clear();
        this.flush();
    }
}

module.exports = { Outlet, Queue };
