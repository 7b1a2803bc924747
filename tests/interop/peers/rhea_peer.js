'use strict';

// rhea under the orders of a test: node rhea_peer.js client|server
//
// Requests and replies are those of proton_peer.py: JSON, one a line, one after the other.
// Ends when its input does. DEBUG=rhea:frames in the environment shows the frames on standard error.

const readline = require('node:readline');

console.log = console.error; // standard output carries replies alone

const { Fault } = require('./rhea_messages.js');
const { Client } = require('./rhea_client.js');
const { Server } = require('./rhea_server.js');

const ROLES = { client: Client, server: Server };

/** Play one scenario and return the reply to it. */
async function play(player, request) {
    const reply = { id: request.id };
    const timer = setTimeout(() => player.giveUp(), 1000 * request.seconds);
    try {
        const result = await player[request.do](request.with);
        reply.result = result === undefined ? null : result;
    } catch (fault) {
        if (!(fault instanceof Fault)) throw fault;
        let { where, condition, description } = fault;
        if (where === 'deadline') description = `waited ${request.seconds} s for ${player.waitsFor}`;
        reply.failed = { where, condition, description };
    } finally {
        clearTimeout(timer);
    }
    return reply;
}

async function main(role) {
    const player = new ROLES[role]();
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const reply = await play(player, JSON.parse(line));
        process.stdout.write(JSON.stringify(reply) + '\n');
    }
    process.exit(0);
}

main(process.argv[2]);
