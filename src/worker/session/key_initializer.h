// Declaring keys: the scheduler gives each key its number and its place, and worker 0 stores its first
// value.
//
// Thread safety: the client's loop calls everything here, and all callbacks run there.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "worker/operations/keyed_operations.h"
#include "worker/session/control_plane_requests.h"

namespace sluice::worker {

struct InitArgs {
  wire::KeySpec spec;
  Frame value;  // only rank 0's is used; empty for row-sparse keys
};

class KeyInitializer {
 public:
  // Gets the ids of the keys, in the order of the call.
  using InitDone = std::function<void(const Result<std::vector<uint32_t>>&)>;

  // All arguments must outlive this object.
  KeyInitializer(DeclaredKeys& keys, const ConnectionTable& connections, OpenOperations& open,
                 KeyedOperations& operations, ControlPlaneRequests& requests, const MessageFactory& messages)
      : keys_(keys),
        connections_(connections),
        open_(open),
        operations_(operations),
        requests_(requests),
        messages_(messages) {}

  // As Client::Init.
  void Init(Time now, wire::SyncMode mode, std::vector<InitArgs> keys, Time deadline, InitDone done,
            transport::Network& network);

 private:
  struct Declaration;
  void DeclareNextPart(Time now, std::shared_ptr<Declaration> declaration, transport::Network& network);
  void Declare(Time now, std::shared_ptr<Declaration> declaration, transport::Network& network);
  void OnDeclared(Time now, Declaration& declaration, transport::Network& network);

  DeclaredKeys& keys_;
  const ConnectionTable& connections_;
  OpenOperations& open_;
  KeyedOperations& operations_;
  ControlPlaneRequests& requests_;
  const MessageFactory& messages_;
};

}  // namespace sluice::worker
