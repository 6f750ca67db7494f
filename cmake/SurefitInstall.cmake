# Installs the library (surefit_train and every module below it), the public headers and a package file. What the package
# must find again is read from the link interfaces, so that no second list can drift.
include(CMakePackageConfigHelpers)

# Appends to `modules` and `libraries` (names of variables) what `target` links, through all modules below it.
function(surefit_collect target modules libraries)
  set(found_modules ${${modules}})
  set(found_libraries ${${libraries}})
  if(NOT target IN_LIST found_modules)
    list(APPEND found_modules ${target})
    get_target_property(linked ${target} LINK_LIBRARIES)
    foreach(item ${linked})
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
      if(item MATCHES "^surefit_")
        surefit_collect(${item} found_modules found_libraries)
      else()
        list(APPEND found_libraries ${item})
      endif()
    endforeach()
  endif()
  set(${modules} ${found_modules} PARENT_SCOPE)
  set(${libraries} ${found_libraries} PARENT_SCOPE)
endfunction()

# The target users link; `surefit` itself is the program.
add_library(surefit_library INTERFACE)
target_link_libraries(surefit_library INTERFACE surefit_train)
set_target_properties(surefit_library PROPERTIES EXPORT_NAME surefit)
add_library(surefit::surefit ALIAS surefit_library)

surefit_collect(surefit_train SUREFIT_INSTALLED libraries)
foreach(module ${SUREFIT_INSTALLED})
  string(REPLACE surefit_ "" name ${module})
  set_target_properties(${module} PROPERTIES EXPORT_NAME ${name})
endforeach()

set(SUREFIT_DEPENDENCIES "")
foreach(pair
    "Threads::Threads|Threads" "OpenMP::OpenMP_CXX|OpenMP" "OneDNN::OneDNN|OneDNN" "fmt::fmt|fmt" "ZLIB::ZLIB|ZLIB"
    "nlohmann_json::nlohmann_json|nlohmann_json" "SQLite::SQLite3|SQLite3" "JPEG::JPEG|JPEG" "PNG::PNG|PNG")
  string(REPLACE "|" ";" pair ${pair})
  list(GET pair 0 library)
  list(GET pair 1 package)
  if(library IN_LIST libraries)
    string(APPEND SUREFIT_DEPENDENCIES "find_dependency(${package})\n")
    list(REMOVE_ITEM libraries ${library})
  endif()
endforeach()
if(PkgConfig::XXHASH IN_LIST libraries)
  string(APPEND SUREFIT_DEPENDENCIES
    "find_dependency(PkgConfig)\npkg_check_modules(XXHASH REQUIRED QUIET IMPORTED_TARGET libxxhash)\n")
  list(REMOVE_ITEM libraries PkgConfig::XXHASH)
endif()
foreach(library ${libraries})
  if(library MATCHES "::" AND NOT library MATCHES "surefit_options")
    message(FATAL_ERROR "cmake/SurefitInstall.cmake does not know the package of ${library}")
  endif()
endforeach()

set(directory ${CMAKE_INSTALL_LIBDIR}/cmake/surefit)
install(TARGETS ${SUREFIT_INSTALLED} surefit_library EXPORT surefitTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT surefitTargets NAMESPACE surefit:: DESTINATION ${directory})
install(DIRECTORY include/surefit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
configure_package_config_file(cmake/surefitConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/surefitConfig.cmake
  INSTALL_DESTINATION ${directory})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/surefitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/surefitConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/surefitConfigVersion.cmake
              cmake/FindOneDNN.cmake
        DESTINATION ${directory})
