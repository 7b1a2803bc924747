"""Reading captured AMQP traffic: packets, TCP streams, protocol frames.

Each layer is a module of its own, and none of them knows the one above it:

- `source` gives octets with look-ahead from a file, a pipe, a growing file, or a gzip form of these;
- `pcap` and `pcapng` turn octets into `Packet`s, `network` turns a packet into a TCP `Segment`;
- `tcp` puts segments in order and reports octets, gaps and ends per stream and direction;
- `conversation` finds the protocol of a stream and `amqp_1_0` reads its frames into `Record`s;
- `reader` joins them: octets in, records out.
"""

from __future__ import annotations
