#!/bin/sh
# Install what tests/interop talks with. Run this before the Python packages of the extra "interop" are installed.
# RabbitMQ comes from the distribution, as root on Debian and its relatives; rhea from npm, into peers/node_modules.
set -eu

peers=$(cd "$(dirname "$0")" && pwd)/peers

missing=
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing="$missing rabbitmq-server"
command -v openssl >/dev/null || missing="$missing openssl"
command -v npm >/dev/null || missing="$missing nodejs npm"
# What Proton for Python is compiled with: without these it comes out without TLS.
pkg-config --exists openssl 2>/dev/null || missing="$missing pkg-config libssl-dev"
# The page of the report is looked at in a real browser.
command -v chromium >/dev/null || missing="$missing chromium fonts-dejavu-core"
# With it the tests of the broker's store see what reaches the disk, and when.
command -v strace >/dev/null || missing="$missing strace"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"

if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "not installed:$missing; install them, or run this as root where there is apt-get" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    # shellcheck disable=SC2086 # a list of words
    apt-get install -q -y --no-install-recommends $missing
fi

npm ci --prefix "$peers" --no-audit --no-fund
