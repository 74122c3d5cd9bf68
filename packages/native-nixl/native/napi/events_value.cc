#include "events_value.h"

#include <cstring>

#include "result_value.h"

namespace kvferry {

namespace {

/** Numbers per transfer; binding.ts reads them in this order. */
constexpr size_t kTransferFields = 9;

Napi::Uint8Array bytesValue(Napi::Env env, const std::vector<uint8_t>& bytes) {
  Napi::Uint8Array array = Napi::Uint8Array::New(env, bytes.size());
  if (!array.IsEmpty() && !bytes.empty()) std::memcpy(array.Data(), bytes.data(), bytes.size());
  return array;
}

Napi::Value transfersValue(Napi::Env env, const std::vector<TransferCompletion>& transfers) {
  Napi::Float64Array values = Napi::Float64Array::New(env, transfers.size() * kTransferFields);
  if (values.IsEmpty()) return values;
  double* at = values.Data();
  for (const TransferCompletion& transfer : transfers) {
    *at++ = static_cast<double>(transfer.handle);
    *at++ = static_cast<double>(transfer.outcome);
    *at++ = transfer.queuedUs;
    *at++ = transfer.prepareUs;
    *at++ = transfer.postUs;
    *at++ = transfer.wireUs;
    *at++ = static_cast<double>(transfer.descriptorsBeforeMerge);
    *at++ = static_cast<double>(transfer.descriptorsAfterMerge);
    *at++ = static_cast<double>(transfer.bytes);
  }
  return values;
}

/** `{ index, peer, failure }` for each transfer that isn't done. */
Napi::Value failuresValue(Napi::Env env, const std::vector<TransferCompletion>& transfers) {
  Napi::Array failures = Napi::Array::New(env);
  for (size_t index = 0; index < transfers.size(); ++index) {
    const TransferCompletion& transfer = transfers[index];
    if (transfer.outcome == TransferOutcome::kDone) continue;
    Napi::Object failure = Napi::Object::New(env);
    failure.Set("index", static_cast<double>(index));
    failure.Set("peer", transfer.peer);
    failure.Set("failure", resultValue(env, transfer.result));
    failures.Set(failures.Length(), failure);
  }
  return failures;
}

Napi::Value notificationsValue(Napi::Env env, const std::vector<NotificationMessage>& messages) {
  Napi::Array array = Napi::Array::New(env, messages.size());
  for (size_t index = 0; index < messages.size(); ++index) {
    Napi::Object one = Napi::Object::New(env);
    one.Set("from", messages[index].from);
    one.Set("message", bytesValue(env, messages[index].message));
    array.Set(static_cast<uint32_t>(index), one);
  }
  return array;
}

Napi::Value commandsValue(Napi::Env env, const std::vector<CommandCompletion>& commands) {
  Napi::Array array = Napi::Array::New(env, commands.size());
  for (size_t index = 0; index < commands.size(); ++index) {
    const CommandCompletion& command = commands[index];
    Napi::Object one = Napi::Object::New(env);
    one.Set("ticket", static_cast<double>(command.ticket));
    one.Set("failure", resultValue(env, command.result));
    one.Set("handle", static_cast<double>(command.handle));
    one.Set("bytes", bytesValue(env, command.bytes));
    one.Set("leakedTransfers", static_cast<double>(command.leakedTransfers));
    array.Set(static_cast<uint32_t>(index), one);
  }
  return array;
}

}  // namespace

std::vector<napi_value> eventsArguments(Napi::Env env, const AgentEvents& events) {
  return {
      transfersValue(env, events.transfers),
      failuresValue(env, events.transfers),
      notificationsValue(env, events.notifications),
      commandsValue(env, events.commands),
      events.isBroken ? resultValue(env, events.broken) : env.Null(),
  };
}

}  // namespace kvferry
