// The agent's thread: the library's backends (plugins), and which of them carries a transfer.
#include "agent_thread.h"
#include "plugin_load.h"

namespace kvferry {

Result AgentThread::startBackends() {
  const std::vector<std::string>& names = core_->config.backends;
  for (const std::string& name : names) {
    Result made = startBackend(name);
    if (!made.ok()) return made;
  }
  // Memory is registered with all of them. Among several the library takes whichever engine has the
  // lowest address: the order of the list is kept by naming one at a time.
  if (backends_.size() < 2) return Result::success();
  for (const NixlBackend& backend : backends_) {
    NixlHandle handle = nullptr;
    int status = api().create_opt_args(&handle);
    if (status != kNixlSuccess) return Result::nixlFailure("create_opt_args", status);
    choices_.emplace_back(api(), handle);
    status = api().opt_args_add_backend(handle, backend.get());
    if (status != kNixlSuccess) return Result::nixlFailure("opt_args_add_backend", status);
  }
  return Result::success();
}

Result AgentThread::startBackend(const std::string& name) {
  NixlHandle handle = nullptr;
  if (api().create_params(&handle) != kNixlSuccess) {
    return Result::nixlFailure("create_params", kNixlBackend);
  }
  const NixlParams params(api(), handle);
  // What it does by itself, said aloud: with the other mode, a WRITE to a dead peer's GPU goes on
  // answering success.
  if (name == "UCX") {
    const int added = api().params_add(params.get(), "ucx_error_handling_mode", "peer");
    if (added != kNixlSuccess) return Result::nixlFailure("params_add", added);
  }
  const int status = api().create_backend(agent_.get(), name.c_str(), params.get(), &handle);
  if (status != kNixlSuccess) {
    const std::string problem = pluginLoadProblem(api().path, name);
    if (problem.empty()) {
      return Result::nixlFailure("create_backend", status, name + " of " + api().path);
    }
    return Result::failure(Status::kUnavailable, "plugin",
                           "the plugin " + name + " doesn't load: " + problem);
  }
  backends_.emplace_back(api(), handle);
  return Result::success();
}

Result AgentThread::createTransfer(int operation, NixlHandle local, NixlHandle remote,
                                   const Peer& peer, NixlHandle* request) {
  const auto create = [&](NixlHandle options) {
    return api().create_xfer_req(agent_.get(), operation, local, remote, peer.name.c_str(), request,
                                 options);
  };
  if (choices_.empty()) {
    const int status = create(nullptr);
    return status == kNixlSuccess ? Result::success()
                                  : Result::nixlFailure("create_xfer_req", status);
  }
  // A peer needn't have the first one, and a backend needn't take this kind of memory.
  int status = kNixlBackend;
  for (const NixlOptions& choice : choices_) {
    status = create(choice.get());
    if (status == kNixlSuccess) return Result::success();
  }
  return Result::nixlFailure("create_xfer_req", status);
}

}  // namespace kvferry
