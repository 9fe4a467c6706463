# Third-party libraries: distribution packages on Debian 12; `tools/setup`
# installs them. The core needs no Python.
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(Threads REQUIRED)
if(SW_DEVELOPER_MODE)
  enable_testing()
  include(GoogleTest)
  find_package(GTest REQUIRED)
endif()
