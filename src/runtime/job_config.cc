// Reads JobConfig from the environment: DMLC_*, PS_* and MXNET_* variables as in MXNet and ps-lite, and
// SLUICE_*. Every value is checked here; errors name the variable, its value and what is accepted. The
// functions keep no state and are thread-safe. Invariant: a JobConfig that FromEnv returns has values in
// their ranges, and no two settings that exclude each other. RunProcess and Init call FromEnv on the main
// thread, and Runtime::Default does on the thread that uses it first. RunSchedulerNode calls scheduler_bind,
// which may block while it resolves the scheduler's host name.
#include "runtime/job_config.h"

#include <algorithm>

#include "base/strings.h"
#include "base/tool_names.h"
#include "sluice/error.h"
#include "transport/address.h"

namespace sluice::runtime {
namespace {

std::optional<wire::Role> ReadRole(const Env& env) {
  const auto text = env.Get("DMLC_ROLE");
  if (!text) return std::nullopt;
  for (const wire::Role role : {wire::Role::kScheduler, wire::Role::kServer, wire::Role::kWorker}) {
    if (*text == wire::Name(role)) return role;
  }
  throw Error(ErrorCode::kInvalidArgument, StrCat("environment variable DMLC_ROLE is '", *text,
                                                  "'; it must be scheduler, server or worker"));
}

int IntOf(const Env& env, const char* name, int fallback, int min, int max) {
  return static_cast<int>(env.GetInt(name, fallback, min, max));
}

// The first number of OMP_NUM_THREADS, at most `most`: the variable holds one number, or one
// for each level of nesting. An invalid value counts as not set; OpenMP itself reports it.
int OpenMpThreads(const Env& env, int most) {
  const auto text = env.Get("OMP_NUM_THREADS");
  const auto threads = text ? ParseInt(StrTrim(StrSplit(*text, ',').front())) : std::nullopt;
  return threads && *threads > 0 ? static_cast<int>(std::min<int64_t>(*threads, most)) : most;
}

Duration SecondsOf(const Env& env, const char* name, Duration fallback, double min, double max) {
  return FromSeconds(env.GetDouble(name, ToSeconds(fallback), min, max));
}

// 0 and "inf" mean that there is no timeout.
std::chrono::milliseconds OperationTimeout(const Env& env, std::chrono::milliseconds fallback) {
  constexpr const char* kName = "SLUICE_OPERATION_TIMEOUT";
  const std::string text = env.Get(kName, "");
  const auto seconds = ParseFiniteDouble(text);
  constexpr double kMost = 365 * 86400;
  if (text.empty()) return fallback;
  if (text == "inf" || seconds == 0.0) return std::chrono::milliseconds::max();
  if (!seconds || *seconds < 0.1 || *seconds > kMost) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("environment variable ", kName, " is '", text,
                       "'; it must be a number of seconds from 0.1 to ", static_cast<int64_t>(kMost),
                       ", or inf (0) to wait as long as the others are alive"));
  }
  return std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(*seconds));
}

TransportChoice ReadTransport(const Env& env) {
  const std::string text = env.Get("SLUICE_TRANSPORT", "auto");
  if (const auto choice = transport::ParseTransport(text)) return *choice;
  throw Error(ErrorCode::kInvalidArgument, StrCat("environment variable SLUICE_TRANSPORT is '", text,
                                                  "'; it must be ", transport::kTransportNamesText));
}

void ReadPlace(const Env& env, JobConfig* config) {
  constexpr int kMaxNodes = 65536;
  const bool scheduler = config->role == wire::Role::kScheduler;
  const std::string who = StrCat(LaunchTool(), " sets it; see docs/environment.md");
  config->root_host = env.Require("DMLC_PS_ROOT_URI", who);
  for (const char* name : {"DMLC_PS_ROOT_PORT", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"}) env.Require(name, who);
  config->root_port = IntOf(env, "DMLC_PS_ROOT_PORT", 0, scheduler ? 0 : 1, 65535);
  config->port_fd = IntOf(env, "SLUICE_PORT_FD", -1, -1, 1 << 20);
  config->num_workers = IntOf(env, "DMLC_NUM_WORKER", 1, 1, kMaxNodes);
  config->num_servers = IntOf(env, "DMLC_NUM_SERVER", 1, 1, kMaxNodes);
  config->job_id = env.Get("SLUICE_JOB_ID", config->job_id);
  config->secret = env.Get("SLUICE_JOB_SECRET", "");
  config->requested_rank = IntOf(env, "DMLC_RANK", -1, -1, kMaxNodes);
  config->identity = env.Get("SLUICE_NODE_ID", "");
  config->node_host = env.Get("DMLC_NODE_HOST", "");
  config->interface = env.Get("DMLC_INTERFACE", "");
  config->transport = ReadTransport(env);
  config->local_only = env.GetBool("DMLC_LOCAL", config->transport == TransportChoice::kIpc);
  if (config->local_only && config->transport == TransportChoice::kTcp) {
    throw Error(ErrorCode::kInvalidArgument,
                "DMLC_LOCAL asks for ipc sockets, SLUICE_TRANSPORT for tcp; unset one of them");
  }
  if (!config->local_only && config->transport == TransportChoice::kIpc) {
    throw Error(ErrorCode::kInvalidArgument,
                "SLUICE_TRANSPORT asks for ipc sockets, which DMLC_LOCAL=0 forbids; unset one of them");
  }
  config->behind_service = env.GetBool("DMLC_USE_KUBERNETES", false);
  config->server_port = IntOf(env, "SLUICE_SERVER_PORT", 0, 1, 65535);
  config->local_server = IntOf(env, "SLUICE_LOCAL_SERVER", 0, 0, kMaxNodes);
  if (config->server_port > 0 && config->local_only) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "SLUICE_SERVER_PORT names ports of TCP, and ipc sockets (DMLC_LOCAL, SLUICE_TRANSPORT) have none; "
        "unset one of them");
  }
}

}  // namespace

std::string JobConfig::root_address() const {
  const bool ipv6 = root_host.find(':') != std::string::npos && root_host.front() != '[';
  return ipv6 ? StrCat("tcp://[", root_host, "]:", root_port) : StrCat("tcp://", root_host, ":", root_port);
}

std::string JobConfig::scheduler_bind() const {
  if (!behind_service) {
    return transport::TcpAddress(transport::ResolveScheduler(root_host).OrThrow(),
                                 static_cast<uint16_t>(root_port));
  }
  const bool ipv6 = root_host.find(':') != std::string::npos;
  return StrCat("tcp://", ipv6 ? "[::]" : "0.0.0.0", ":", root_port);
}

int JobConfig::UpdateThreads(int of_server) const {
  return update_threads.value_or(std::clamp(server_cores - of_server, 0, 3));
}

JobConfig JobConfig::FromEnv(const Env& env, int cores) {
  JobConfig config;
  config.role = ReadRole(env);
  if (config.role) ReadPlace(env, &config);
  config.verbose = IntOf(env, "PS_VERBOSE", 0, 0, 2);
  config.heartbeat_interval = SecondsOf(env, "PS_HEARTBEAT_INTERVAL", config.heartbeat_interval, 0.01, 3600);
  config.heartbeat_timeout = SecondsOf(env, "PS_HEARTBEAT_TIMEOUT", config.heartbeat_timeout, 0.05, 86400);
  if (config.heartbeat_timeout < 2 * config.heartbeat_interval) {
    throw Error(ErrorCode::kInvalidArgument,
                StrCat("PS_HEARTBEAT_TIMEOUT (", ToSeconds(config.heartbeat_timeout),
                       " s) must be at least twice PS_HEARTBEAT_INTERVAL (",
                       ToSeconds(config.heartbeat_interval), " s), or one late heartbeat counts as a death"));
  }
  config.resend_timeout = std::chrono::milliseconds(env.GetInt("PS_RESEND_TIMEOUT", 5000, 10, 3'600'000));
  config.rendezvous_timeout =
      SecondsOf(env, "SLUICE_RENDEZVOUS_TIMEOUT", config.rendezvous_timeout, 0.1, 86400);
  config.operation_timeout = OperationTimeout(env, config.operation_timeout);
  config.grace = SecondsOf(env, "SLUICE_GRACE", config.grace, 0, 86400);
  config.drop_percent = IntOf(env, "PS_DROP_MSG", 0, 0, 99);
  if (env.Get("SLUICE_SERVER_THREADS"))
    config.server_threads = IntOf(env, "SLUICE_SERVER_THREADS", 1, 1, 256);
  config.default_server_threads = std::clamp(cores / 4, 1, 8);
  config.launched = env.Get("SLUICE_LOCAL_WORKERS").has_value();
  const int local_workers = IntOf(env, "SLUICE_LOCAL_WORKERS", 1, 1, 65536);
  config.server_cores = std::min(cores, IntOf(env, "SLUICE_CPU_THREADS", cores, 1, 4096));
  if (env.Get("SLUICE_UPDATE_THREADS"))
    config.update_threads = IntOf(env, "SLUICE_UPDATE_THREADS", 0, 0, 256);
  config.io_threads = IntOf(env, "SLUICE_IO_THREADS", std::clamp(cores / local_workers / 8, 1, 4), 1, 64);
  if (env.Get("MXNET_KVSTORE_BIGARRAY_BOUND"))
    config.bigarray_bound = env.GetInt("MXNET_KVSTORE_BIGARRAY_BOUND", 1, 1, int64_t{1} << 62);
  config.reduction_threads = IntOf(env, "MXNET_KVSTORE_REDUCTION_NTHREADS", std::clamp(cores, 1, 4), 1, 256);
  if (env.Get("SLUICE_BFLOAT16_ARITHMETIC"))
    config.multiplies_bfloat16 = env.GetBool("SLUICE_BFLOAT16_ARITHMETIC", false);
  config.multiplies_tfloat32 = env.GetBool("SLUICE_TF32_ARITHMETIC", false);
  const int share = OpenMpThreads(env, std::max(1, cores / local_workers));
  config.cpu_threads = IntOf(env, "SLUICE_CPU_THREADS", share, 1, 4096);
  config.binds_threads = env.GetBool("SLUICE_BIND_THREADS", false);
  return config;
}

}  // namespace sluice::runtime
