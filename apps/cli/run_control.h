// How a long command is stopped.
#pragma once

namespace shardwright::cli {

// Makes Ctrl-C a request: the search ends with what it knows. A second Ctrl-C
// ends the program.
void catch_interrupt();
bool interrupted();

}  // namespace shardwright::cli
