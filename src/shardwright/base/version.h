// The version of this build: the content of the file VERSION at the root.
#pragma once

#include <string_view>

namespace shardwright {

// "0.1.0"; plans carry it.
std::string_view version();

}  // namespace shardwright
