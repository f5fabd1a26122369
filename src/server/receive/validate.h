// Checks a worker's message against the shard's keys before it changes anything. What comes is a worker's
// word: whatever passes here is safe to add up, to store or to answer.
//
// Each Validate function finds the key and the part that part `i` of the message names. A failure names the
// key, what was given and what is accepted; the shard answers it with ErrorReply. Thread safety: the shard's
// loop.
#pragma once

#include "server/keys/shard_keys.h"

namespace sluice::server {

// Copies leased frames of the message, and returns the bytes copied. A worker may change leased memory after
// the checks below, so this comes before them. Two kinds stay in place, since no value in them is checked:
// uncompressed gradients of dense keys, which are only added up, and values for dense keys, which are copied
// when they are stored.
size_t CopyLeasedFrames(const ShardKeys& keys, wire::Message* message);

// `bytes`: the payload frame of the part.
Status ValidatePush(const ShardKeys& keys, const wire::Push& push, size_t i, Bytes bytes, ShardKey** key,
                    ShardPart** part);

// `as`: the compression that the values are to come in. States that are asked for, and that do not exist yet,
// are made.
Status ValidatePull(const ShardKeys& keys, wire::Pull::Want want, Compression as,
                    const wire::PullPart& wanted, ShardKey** key, ShardPart** part);

// Worker `rank` pulls the rows `ids` by the request `request_id`. Also bounds what pulls that wait may keep.
Status ValidatePullRows(const ShardKeys& keys, uint32_t rank, uint64_t request_id,
                        const wire::RowsPart& wanted, Bytes ids, ShardKey** key, ShardPart** part);

// The part whose row ids are asked for; it is one of a row-sparse key.
Result<ShardPart*> ValidateGetRowIds(const ShardKeys& keys, const wire::GetRowIds& wanted);

// `rank`: the worker that stores. States that are to be stored, and that do not exist yet, are made.
Status ValidateStore(const ShardKeys& keys, uint32_t rank, const wire::Store& store, size_t i, Bytes bytes,
                     ShardKey** key, ShardPart** part);

}  // namespace sluice::server
