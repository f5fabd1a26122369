#!/bin/sh
# Writes <body>.bin beside each <body>.textproto with protoc itself: an encoder that is not ours.
# Only for a new protocol version or body: a change of existing bytes breaks running jobs.
set -eu
cd "$(dirname "$0")"
for text in *.textproto; do
  protoc -I ../../../proto --encode=sluice.pb.Envelope --deterministic_output ../../../proto/envelope.proto \
    < "$text" > "${text%.textproto}.bin"
done
