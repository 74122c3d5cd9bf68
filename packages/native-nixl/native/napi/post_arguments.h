// The flat list in which JS passes the posts of one step, as borrowed views: nothing is copied or made per
// block, so a post of a thousand blocks costs JS as much as one of ten. JS thread only.
#pragma once

#include <vector>

#include "../agent.h"
#include "napi_setup.h"

namespace kvferry {

/** False with a pending exception. The views are valid until JS runs again. */
bool readPosts(const Napi::Value& value, std::vector<PostView>* posts);

}  // namespace kvferry
