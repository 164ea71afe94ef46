// Whether bytes are UTF-8.
#pragma once

#include <string_view>

namespace ashlar {

// As Python takes and gives it: lone surrogates, which stand for undecodable bytes of file names,
// are allowed.
bool is_utf8(std::string_view bytes);

}  // namespace ashlar
