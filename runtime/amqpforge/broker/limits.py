"""How much of the broker peers can take, and the counters that hold them to it."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, fields
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from amqpforge.broker.errors import LimitExceeded
from amqpforge.errors import LocalError

__all__ = ["BrokerLimits", "LoginBrake", "Quota", "Usage"]

_MOST: Final = 1 << 53
"""The greatest number that a limit can be: one that every reader of JSON gets right."""

_RANGES: Final = {
    "frame_size": (512, 0xFFFF_FFFF),
    "credit_per_link": (1, 0xFFFF_FFFF),
    "handshake_timeout": (0.001, 86_400.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """What peers can take at most; each number is 1 to 2^53, as far as no other range is named.

    Attributes:
        connections: to the whole broker, those included that have not logged in yet. Each takes a file of the
            process: the operating system has its own limit on those.
        connections_per_user: that have logged in as one user.
        sessions_per_connection: or channels; at most 65536 count.
        links_per_connection: or consumers and publishers, over all sessions of the connection; those that are
            refused, and that the client has not detached yet, may be as many again.
        dynamic_nodes_per_connection: queues that were made for links of the connection.
        transactions_per_connection: that are open.
        queues: in all virtual hosts.
        exchanges: in all virtual hosts, those included that are there from the start.
        bindings: in all virtual hosts, without the default ones.
        consumers_per_queue: that are attached.
        message_size: octets of one message.
        frame_size: octets of one frame, 512 to 2^32 - 1.
        unsettled_per_link: deliveries that a link may have unsettled, either way.
        credit_per_link: messages that the broker lets a publisher send ahead, 1 to 2^32 - 1.
        memory: octets of messages in memory, of those that are not whole yet included, beyond which
            publishers get no more credit, until it is four fifths of this again. Those who go on with credit
            that they had are refused at twice as much. What is not whole on one connection is at most a
            quarter of this, but at least one message of ``message_size`` octets, or of twice this.
        handshake_timeout: seconds that a client has until its connection is open, 0.001 to 86400.
    """

    connections: int = 10_000
    connections_per_user: int = 5_000
    sessions_per_connection: int = 256
    links_per_connection: int = 4_096
    dynamic_nodes_per_connection: int = 1_024
    transactions_per_connection: int = 128
    queues: int = 100_000
    exchanges: int = 10_000
    bindings: int = 1_000_000
    consumers_per_queue: int = 10_000
    message_size: int = 64 << 20
    frame_size: int = 65_536
    unsettled_per_link: int = 10_000
    credit_per_link: int = 1_000
    memory: int = 512 << 20
    handshake_timeout: float = 10.0

    def __post_init__(self) -> None:
        """Raises LocalError for a limit out of its range."""
        for field in fields(self):
            value = getattr(self, field.name)
            least, most = _RANGES.get(field.name, (1, _MOST))
            if not least <= value <= most:
                raise LocalError(f"the limit {field.name} is {least} to {most}, not {value}")

    @property
    def unfinished_per_connection(self) -> int:
        """Octets that a connection may have sent of messages which are not whole yet."""
        return max(self.memory // 4, min(self.message_size, 2 * self.memory))

    def check_message_size(self, size: int) -> None:
        """Raises LimitExceeded for a message of too many octets."""
        if size > self.message_size:
            raise LimitExceeded(
                f"the message has {size} octets, and the limit message_size is {self.message_size}: send "
                "less, or raise the limit"
            )


class Quota:
    """One count that is held to one limit.

    Attributes:
        limit: the greatest count.
        used: the count, from 0.
    """

    __slots__ = ("_name", "limit", "used")

    def __init__(self, name: str, limit: int) -> None:
        """``name``: the limit, as :class:`BrokerLimits` has it; what is counted can be seen in it."""
        self._name = name
        self.limit = limit
        self.used = 0

    def __repr__(self) -> str:
        return f"<Quota {self._name}: {self.used} of {self.limit}>"

    def take(self, amount: int = 1) -> None:
        """Count some more.

        Raises:
            LimitExceeded: they would be too many; nothing was counted.
        """
        if self.used + amount > self.limit:
            raise LimitExceeded(
                f"the limit {self._name} is {self.limit}, and {self.used} are in use: give some back, or "
                "raise the limit"
            )
        self.used += amount

    def give_back(self, amount: int = 1) -> None:
        """Count so many less.

        Raises:
            ValueError: they are more than were taken: what is counted has been given back twice.
        """
        if amount > self.used:
            raise ValueError(f"{self._name}: {amount} cannot be given back, {self.used} are in use")
        self.used -= amount


class Usage:
    """What of the broker is in use.

    Attributes:
        limits: what all counts are held to.
        connections: how many there are, those included that nobody has logged in on yet.
        queues: in all virtual hosts.
        exchanges: in all virtual hosts.
        bindings: in all virtual hosts.
    """

    def __init__(self, limits: BrokerLimits) -> None:
        self.limits = limits
        self.connections = Quota("connections", limits.connections)
        self.queues = Quota("queues", limits.queues)
        self.exchanges = Quota("exchanges", limits.exchanges)
        self.bindings = Quota("bindings", limits.bindings)
        self._users: dict[str, Quota] = {}

    def connections_of(self, user: str) -> int:
        """How many connections a user has."""
        quota = self._users.get(user)
        return 0 if quota is None else quota.used

    def take_user(self, user: str) -> None:
        """Count one more connection of a user.

        Raises:
            LimitExceeded: he has too many.
        """
        quota = self._users.get(user) or Quota("connections_per_user", self.limits.connections_per_user)
        quota.take()
        self._users[user] = quota

    def give_back_user(self, user: str) -> None:
        """Count one connection less of a user who has one."""
        quota = self._users[user]
        quota.give_back()
        if not quota.used:
            del self._users[user]


class LoginBrake:
    """Delays answers to those from whose address logins have failed often of late.

    The ``failures``-th failure within ``window`` seconds brings a delay of ``delay`` seconds, and each
    further one doubles it, up to ``longest``. Logins that succeed change nothing: or somebody with an account
    could try the passwords of others between them. An IPv6 network of 64 bits counts as one address, since
    its owner has all of it. Only the last ``addresses`` that failed are known.
    """

    def __init__(
        self,
        *,
        failures: int = 5,
        window: float = 60.0,
        delay: float = 1.0,
        longest: float = 5.0,
        addresses: int = 10_000,
    ) -> None:
        """Take the numbers of the brake.

        Raises:
            LocalError: ``failures`` or ``addresses`` is below 1, or not ``0 < delay <= longest`` and
                ``0 < window``.
        """
        if failures < 1 or addresses < 1 or not 0 < delay <= longest or window <= 0:
            raise LocalError("a login brake has at least 1 failure and address, and 0 < delay <= longest")
        self._failures = failures
        self._window = window
        self._delay = delay
        self._longest = longest
        self._addresses = addresses
        self._doublings = 0
        while delay * 2**self._doublings < longest:
            self._doublings += 1
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        """How many addresses are known."""
        return len(self._times)

    def failed(self, address: str, now: float) -> None:
        """A login from an address has failed at a time, in seconds, that never goes back."""
        name = _network(address)
        times = self._times.pop(name, None)
        if times is None:
            # No more of them can change the delay.
            times = deque(maxlen=self._failures + self._doublings)
            while len(self._times) >= self._addresses:
                self._times.popitem(last=False)
        times.append(now)
        self._times[name] = times

    def delay(self, address: str, now: float) -> float:
        """Seconds to wait before a login from an address is answered; 0 for most."""
        name = _network(address)
        times = self._times.get(name)
        if times is None:
            return 0.0
        while times and times[0] <= now - self._window:
            times.popleft()
        if not times:
            del self._times[name]
        excess = len(times) - self._failures
        return 0.0 if excess < 0 else float(min(self._delay * 2**excess, self._longest))


def _network(address: str) -> str:
    """Whose address it is: itself, or the network of an IPv6 address; what is none stands for itself."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is None:
            return str(IPv6Address(int(parsed) >> 64 << 64))
        parsed = parsed.ipv4_mapped
    return str(parsed)
