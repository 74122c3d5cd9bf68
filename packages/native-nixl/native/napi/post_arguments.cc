#include "post_arguments.h"

#include "arguments.h"

namespace kvferry {

namespace {

/**
 * Per post: direction (0 read, 1 write), peer, fence or null, notification or null, deadlineMs, path
 * (0 descriptors, 1 slabs), then for the local and the remote side: table, block ids or regions, offsets or null, lengths or null.
 */
constexpr uint32_t kPostFields = 14;
constexpr uint32_t kLocalSide = 6;
constexpr uint32_t kRemoteSide = 10;

bool readSide(const Napi::Array& list, uint32_t at, SideView* side) {
  const napi_env env = list.Env();
  const Napi::Value offsets = list.Get(at + 2);
  const Napi::Value lengths = list.Get(at + 3);
  if (!readInteger(list.Get(at), "table", &side->table)) return false;
  side->isSegments = !offsets.IsNull();
  const uint32_t* numbers = nullptr;
  if (!readElements(env, list.Get(at + 1), napi_uint32_array,
                    side->isSegments ? "regions" : "blockIds", &numbers, &side->count)) {
    return false;
  }
  if (!side->isSegments) {
    side->blockIds = numbers;
    return true;
  }
  side->regions = numbers;
  size_t offsetCount = 0;
  size_t lengthCount = 0;
  if (!readElements(env, offsets, napi_float64_array, "offsets", &side->offsets, &offsetCount) ||
      !readElements(env, lengths, napi_float64_array, "lengths", &side->lengths, &lengthCount)) {
    return false;
  }
  if (offsetCount == side->count && lengthCount == side->count) return true;
  Napi::RangeError::New(env, "regions, offsets and lengths of a side differ in length")
      .ThrowAsJavaScriptException();
  return false;
}

bool readPost(const Napi::Array& list, uint32_t at, PostView* post) {
  uint64_t direction = 0;
  uint64_t path = 0;
  if (!readInteger(list.Get(at), "direction", &direction) ||
      !readInteger(list.Get(at + 1), "peer", &post->peer) ||
      !readInteger(list.Get(at + 4), "deadlineMs", &post->deadlineMs) ||
      !readInteger(list.Get(at + 5), "path", &path)) {
    return false;
  }
  // The library takes any number for an operation.
  if (direction > 1) {
    Napi::RangeError::New(list.Env(), "direction must be 0 or 1").ThrowAsJavaScriptException();
    return false;
  }
  if (path > 1) {
    Napi::RangeError::New(list.Env(), "path must be 0 or 1").ThrowAsJavaScriptException();
    return false;
  }
  post->isBySlabs = path == 1;
  post->direction = direction == 0 ? Direction::kRead : Direction::kWrite;
  const Napi::Value fence = list.Get(at + 2);
  post->hasFence = !fence.IsNull();
  if (post->hasFence && !readInteger(fence, "fence", &post->fence)) return false;
  const Napi::Value notification = list.Get(at + 3);
  post->hasNotification = !notification.IsNull();
  if (post->hasNotification && !readBytes(notification, "notification", &post->notification,
                                          &post->notificationSizeBytes)) {
    return false;
  }
  return readSide(list, at + kLocalSide, &post->local) &&
         readSide(list, at + kRemoteSide, &post->remote);
}

}  // namespace

bool readPosts(const Napi::Value& value, std::vector<PostView>* posts) {
  if (!value.IsArray()) return refuseType(value.Env(), "posts", "an array");
  const Napi::Array list = value.As<Napi::Array>();
  const uint32_t count = list.Length() / kPostFields;
  posts->resize(count);
  for (uint32_t index = 0; index < count; ++index) {
    if (!readPost(list, index * kPostFields, &(*posts)[index])) return false;
  }
  return true;
}

}  // namespace kvferry
