// The extension module shardwright._core: the layers in the order of their
// table.
#include "bind.h"

NB_MODULE(_core, module) {
  using namespace shardwright::bindings;
  module.doc() = "The C++ core of shardwright: functions of JSON text.";
  register_internal_error();
  bind_base(module);
  bind_ir(module);
  bind_rules(module);
  bind_strategy(module);
  bind_planner(module);
  bind_verify(module);
}
