#include "shardwright/base/version.h"

namespace shardwright {

std::string_view version() { return SW_VERSION_TEXT; }

}  // namespace shardwright
