'use strict';

// What goes through one link of a rhea client, as the scenarios look at it.

const { attached, describe, give, isDecided, outcomeOf } = require('./rhea_messages.js');

const ACCEPT = { name: 'accepted' };

/** What arrives on one receiver, how it is answered, and how far the credit reaches. */
class Inbox {
    constructor(link, count, credit, answer = ACCEPT) {
        this.link = link;
        this.messages = [];
        this.settled = [];
        this.resettled = 0;
        this.unsettled = 0;
        this.count = count;
        this.window = credit;
        this.granted = 0;
        this.answer = answer;
    }

    /** Fill the credit up, but never ask for more than was wanted. */
    grant() {
        const more = Math.min(this.window - this.link.credit, this.count - this.granted);
        if (more > 0) {
            this.link.add_credit(more);
            this.granted += more;
        }
    }

    take(message, delivery) {
        this.messages.push(message);
        this.settled.push(Boolean(delivery.remote_settled));
        if (delivery.remote_settled) {
            delivery.update(true);
        } else if (this.answer.name !== 'none') {
            give(delivery, this.answer);
            if (!delivery.settled) this.unsettled++;
        }
        this.grant();
    }

    /** The sender has settled what we had answered. */
    settle() {
        this.resettled++;
        this.unsettled--;
    }

    described() {
        return this.messages.map((message, place) => describe(message, this.settled[place]));
    }

    result() {
        return {
            messages: this.described(),
            attached: attached(this.link),
            resettled: this.resettled,
            credit: this.link.credit,
        };
    }
}

/** What was sent on one link, and what became of it. */
class Outbox {
    constructor() {
        this.outcomes = [];
        this.pending = 0;
    }

    sent(delivery, settled) {
        delivery.place = this.outcomes.length;
        this.outcomes.push({ name: null, settled });
        if (settled) delivery.settled = true;
        else this.pending++;
    }

    /** The receiver told something of a delivery; a terminal outcome settles it. */
    told(delivery) {
        if (delivery.isTold || !isDecided(delivery)) return;
        delivery.isTold = true;
        this.outcomes[delivery.place] = outcomeOf(delivery);
        if (!delivery.remote_settled) delivery.update(true);
        this.pending--;
    }
}

module.exports = { Inbox, Outbox };
