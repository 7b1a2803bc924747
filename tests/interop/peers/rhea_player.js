'use strict';

// What client and server share: waiting for something, within the deadline of the scenario.

const { Fault } = require('./rhea_messages.js');

class Player {
    constructor() {
        this.waitsFor = 'nothing yet';
        this.wakeUp = () => {};
        this.isOverdue = false;
    }

    /** Something happened: whoever waits looks again. */
    changed() {
        this.wakeUp();
    }

    /** The deadline of the scenario has passed. */
    giveUp() {
        this.isOverdue = true;
        this.changed();
    }

    /** Wait until `done()`; `check()` may find a reason not to wait any longer, and throw it. */
    async until(done, waitsFor, check = () => {}) {
        this.waitsFor = waitsFor;
        for (;;) {
            if (this.isOverdue) {
                this.isOverdue = false;
                throw new Fault('deadline');
            }
            check();
            if (done()) return;
            await new Promise((resolve) => {
                this.wakeUp = resolve;
            });
        }
    }
}

module.exports = { Player };
