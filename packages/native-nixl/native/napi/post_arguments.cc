#include "post_arguments.h"

#include <algorithm>

#include "arguments.h"

namespace kvferry {

namespace {

/** Of a post's numbers, the last one being the answer; a fence of -1 is none. */
enum Number : size_t { kDirection, kPeer, kFence, kDeadlineMs, kPath, kLocal, kRemote, kHandle };
static_assert(kHandle + 1 == kPostNumbers);
/** Of a post's lists. */
enum List : size_t { kNotification, kLocalSide, kRemoteSide, kPostLists };
/** Of the arguments: numbers, whether to wait, and then the lists of one post after the other. */
constexpr size_t kFirstList = 2;

/** Block ids, or an array of regions, offsets and lengths. */
bool readSide(const Napi::Value& value, SideView* side) {
  const napi_env env = value.Env();
  side->isSegments = value.IsArray();
  if (!side->isSegments) {
    return readElements(env, value, napi_uint32_array, "blockIds", &side->blockIds, &side->count);
  }
  const Napi::Array lists = value.As<Napi::Array>();
  size_t offsetCount = 0;
  size_t lengthCount = 0;
  if (!readElements(env, lists.Get(0u), napi_uint32_array, "regions", &side->regions,
                    &side->count) ||
      !readElements(env, lists.Get(1u), napi_float64_array, "offsets", &side->offsets,
                    &offsetCount) ||
      !readElements(env, lists.Get(2u), napi_float64_array, "lengths", &side->lengths,
                    &lengthCount)) {
    return false;
  }
  if (offsetCount == side->count && lengthCount == side->count) return true;
  Napi::RangeError::New(env, "regions, offsets and lengths of a side differ in length")
      .ThrowAsJavaScriptException();
  return false;
}

bool readNumbers(Napi::Env env, const double* numbers, PostView* post) {
  uint64_t direction = 0;
  uint64_t path = 0;
  if (!readInteger(env, numbers[kDirection], "direction", &direction) ||
      !readInteger(env, numbers[kPeer], "peer", &post->peer) ||
      !readInteger(env, numbers[kDeadlineMs], "deadlineMs", &post->deadlineMs) ||
      !readInteger(env, numbers[kPath], "path", &path) ||
      !readInteger(env, numbers[kLocal], "table", &post->local.table) ||
      !readInteger(env, numbers[kRemote], "table", &post->remote.table)) {
    return false;
  }
  // The library takes any number for an operation.
  if (direction > 1) {
    Napi::RangeError::New(env, "direction must be 0 or 1").ThrowAsJavaScriptException();
    return false;
  }
  if (path > static_cast<uint64_t>(Path::kIpc)) {
    Napi::RangeError::New(env, "path must be 0, 1 or 2").ThrowAsJavaScriptException();
    return false;
  }
  post->path = static_cast<Path>(path);
  post->direction = direction == 0 ? Direction::kRead : Direction::kWrite;
  post->hasFence = numbers[kFence] != -1;
  return !post->hasFence || readInteger(env, numbers[kFence], "fence", &post->fence);
}

bool readLists(const Napi::CallbackInfo& info, size_t at, PostView* post) {
  const Napi::Value notification = info[at + kNotification];
  post->hasNotification = !notification.IsNull();
  if (post->hasNotification && !readBytes(notification, "notification", &post->notification,
                                          &post->notificationSizeBytes)) {
    return false;
  }
  return readSide(info[at + kLocalSide], &post->local) &&
         readSide(info[at + kRemoteSide], &post->remote);
}

}  // namespace

bool readPosts(const Napi::CallbackInfo& info, std::vector<PostView>* posts, double** answers) {
  const Napi::Env env = info.Env();
  const double* fields = nullptr;
  size_t fieldCount = 0;
  if (!readElements(env, info[0], napi_float64_array, "numbers", &fields, &fieldCount)) return false;
  const size_t listCount = info.Length() - std::min(info.Length(), kFirstList);
  const size_t count = listCount / kPostLists;
  if (listCount % kPostLists != 0 || fieldCount < count * kPostNumbers) {
    Napi::RangeError::New(env, "numbers or lists are too few for these posts")
        .ThrowAsJavaScriptException();
    return false;
  }
  posts->resize(count);
  for (size_t index = 0; index < count; ++index) {
    PostView& post = (*posts)[index];
    if (!readNumbers(env, fields + index * kPostNumbers, &post) ||
        !readLists(info, kFirstList + index * kPostLists, &post)) {
      return false;
    }
  }
  *answers = const_cast<double*>(fields) + kHandle;
  return true;
}

}  // namespace kvferry
