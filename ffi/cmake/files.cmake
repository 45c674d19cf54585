# Writes what programs find a library by into the folder of the build: gleed-config.cmake, its version, and gleed.pc; with the
# gleed_name `gleed_gpu` these are gleed_gpu-config.cmake and so on. CMakeLists.txt
# includes this file; scripts/package.sh runs it alone (`cmake -D... -P`), for libraries that are built already.
#
# Needs CMAKE_INSTALL_LIBDIR, CMAKE_INSTALL_INCLUDEDIR, CMAKE_SIZEOF_VOID_P, gleed_version, the names of the libraries in
# gleed_static_file and gleed_shared_file (one of them suffices; gleed_import_file beside a DLL), and in gleed_libraries what a
# program has to link, too.
include(CMakePackageConfigHelpers)

if(NOT gleed_name)
    set(gleed_name gleed)
endif()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/gleed-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/${gleed_name}-config.cmake"
    INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/${gleed_name}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/${gleed_name}-config-version.cmake"
    VERSION "${gleed_version}" COMPATIBILITY SameMinorVersion)
list(TRANSFORM gleed_libraries PREPEND "-l" OUTPUT_VARIABLE gleed_flags)
list(JOIN gleed_flags " " gleed_flags)
# Relative to gleed.pc, so that what is installed can be moved; but a distribution may give absolute folders.
file(RELATIVE_PATH gleed_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
string(REGEX REPLACE "/$" "" gleed_prefix "\${pcfiledir}/${gleed_prefix}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(gleed_prefix "${CMAKE_INSTALL_PREFIX}")
endif()
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE gleed_libdir)
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_INCLUDEDIR BASE_DIRECTORY "\${prefix}" OUTPUT_VARIABLE gleed_includedir)
configure_file("${CMAKE_CURRENT_LIST_DIR}/gleed.pc.in" "${CMAKE_CURRENT_BINARY_DIR}/${gleed_name}.pc" @ONLY)
