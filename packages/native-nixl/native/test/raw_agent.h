// An agent of the library itself, driven by hand on the test's thread: for what ours refuses to do.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent_fixture.h"

namespace fixture {

class RawAgent {
 public:
  explicit RawAgent(const std::string& name) : api_(fakeApi()) {
    NixlAgentConfig config;
    REQUIRE(api_->create_configured_agent(name.c_str(), &config, &agent_) == 0);
    NixlHandle params = nullptr;
    api_->create_params(&params);
    REQUIRE(api_->create_backend(agent_, "UCX", params, &backend_) == 0);
    api_->destroy_params(params);
  }
  ~RawAgent() {
    api_->destroy_backend(backend_);
    api_->destroy_agent(agent_);
  }
  RawAgent(const RawAgent&) = delete;
  RawAgent& operator=(const RawAgent&) = delete;

  const NixlApi& api() const { return *api_; }
  NixlHandle handle() const { return agent_; }

  void load(const std::vector<uint8_t>& metadata) {
    char* name = nullptr;
    REQUIRE(api_->load_remote_md(agent_, metadata.data(), metadata.size(), &name) == 0);
    std::free(name);
  }
  void notify(const std::string& to, const std::string& message) {
    REQUIRE(api_->gen_notif(agent_, to.c_str(), message.data(), message.size(), nullptr) == 0);
  }

 private:
  std::shared_ptr<const NixlApi> api_;
  NixlHandle agent_ = nullptr;
  NixlHandle backend_ = nullptr;
};

}  // namespace fixture
