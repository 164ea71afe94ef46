// SPDX-License-Identifier: Apache-2.0
//
// Makes a source file of the page, compressed, for the command line tool to carry:
//
//   embed_page PAGE.html OUT.cc [SOURCES]
//
// A page that is not there gives an empty one, and one that is older than a file in the folder
// SOURCES is complained of. OUT.cc is left alone where it would not change, so that nothing is
// compiled for it. Runs while building; part of no library.
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace {

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  return std::move(bytes).str();
}

std::string compressed(const std::string& plain) {
  uLongf bytes = compressBound(plain.size());
  std::string out(bytes, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &bytes,
                             reinterpret_cast<const Bytef*>(plain.data()), plain.size(), 9);
  if (code != Z_OK) return {};
  out.resize(bytes);
  return out;
}

std::string source_of(const std::string& page) {
  const std::string bytes = page.empty() ? "" : compressed(page);
  std::ostringstream out;
  out << "// Made by src/view/embed/embed_page.cc.\n#include \"view/embed/page_bytes.h\"\n\n"
      << "namespace ashlar::view {\nnamespace {\n\nconstexpr unsigned char kBytes[] = {";
  for (size_t i = 0; i < bytes.size(); ++i) {
    out << (i % 24 == 0 ? "\n" : "") << static_cast<unsigned>(static_cast<unsigned char>(bytes[i]))
        << ',';
  }
  out << "0};\n\n}  // namespace\n\nPageBytes page_bytes() {\n  return {kBytes, " << bytes.size()
      << ", " << page.size() << "};\n}\n\n}  // namespace ashlar::view\n";
  return std::move(out).str();
}

bool is_older(const char* page, const char* sources) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::file_time_type made = fs::last_write_time(page, none);
  if (none) return false;
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(sources, none)) {
    if (each.is_regular_file(none) && each.last_write_time(none) > made) return true;
  }
  return false;
}

}  // namespace

int main(int count, char** values) {
  if (count != 3 && count != 4) {
    std::cerr << "embed_page: expected PAGE.html, OUT.cc, and maybe the folder of its sources\n";
    return 2;
  }
  if (count == 4 && is_older(values[1], values[3])) {
    std::cerr << "embed_page: the page is older than " << values[3]
              << ": to make it anew, scripts/viewer\n";
  }
  const std::string source = source_of(contents(values[1]));
  if (contents(values[2]) == source) return 0;
  std::ofstream out(values[2], std::ios::binary);
  out << source;
  out.close();
  if (out) return 0;
  std::cerr << "embed_page: cannot write " << values[2] << "\n";
  return 1;
}
