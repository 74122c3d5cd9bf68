// The posts of one step as the arguments of one call, read as borrowed views: nothing is copied or made per
// block, so a post of a thousand blocks costs JS as much as one of ten. Numbers come in one typed array and
// lists as arguments of their own, since V8 takes longer to hand out an element of an array than C++ to check
// it. JS thread only.
#pragma once

#include <vector>

#include "../agent.h"
#include "napi_setup.h"

namespace kvferry {

/** Numbers of a post: from its direction to its handle, which is the answer. */
constexpr size_t kPostNumbers = 8;

/**
 * False with a pending exception. The views are valid until JS runs again, and so is `answers`: the place of
 * the first post's handle; each further one lies `kPostNumbers` on.
 */
bool readPosts(const Napi::CallbackInfo& info, std::vector<PostView>* posts, double** answers);

}  // namespace kvferry
