# Third-party libraries: distribution packages on Debian 12; `tools/setup`
# installs them. The core needs no Python.
#
# sw_find_package(name debian_package [version]) is find_package(REQUIRED) with
# an error that says what to install.
function(sw_find_package name debian_package)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    message(
      FATAL_ERROR
        "[build] ${name} ${ARGN} not found: expected its CMake package or "
        "headers. Try: apt-get install ${debian_package} (Debian 12), or put "
        "the folder of its CMake package in CMAKE_PREFIX_PATH; "
        "`tools/setup --list` names everything the build needs.")
  endif()
endfunction()

sw_find_package(fmt libfmt-dev)
sw_find_package(nlohmann_json nlohmann-json3-dev 3.11)
sw_find_package(tl-expected libexpected-dev)
sw_find_package(ZLIB zlib1g-dev)
sw_find_package(LibLZMA liblzma-dev)
find_package(Threads REQUIRED)
if(SW_BUILD_CLI)
  sw_find_package(CLI11 libcli11-dev 2.1)
endif()
if(SW_DEVELOPER_MODE)
  enable_testing()
  include(GoogleTest)
  sw_find_package(GTest "libgtest-dev libgmock-dev")
endif()
if(SW_BUILD_BINDINGS)
  # Development.SABIModule serves Python >= 3.12, where the module uses the
  # stable ABI; 3.11 gets a module of its own.
  find_package(
    Python 3.11 REQUIRED
    COMPONENTS Interpreter Development.Module
    OPTIONAL_COMPONENTS Development.SABIModule)
  find_package(nanobind CONFIG REQUIRED)
endif()
